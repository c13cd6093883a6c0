"""Questions about a few sentences of who did what where; each answer is in the text, and only the question determines
which of the people, things and places it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, ClassVar

import numpy as np

from headtohead.data.data_source import DataError, SplitName
from headtohead.data.generated.english_grammar import words
from headtohead.data.row_formats.questions import Question, QuestionFormat
from headtohead.data.row_formats.text_source import BucketedRows, TextSource, check_max_length
from headtohead.data.splits.sample_splits import SplitSizes, split_samples
from headtohead.ranges import Fraction, Length, Range, Seed

_AT_ONCE = 2048
"""Contexts written together."""
_DOUBTS = 1
"""Keeps the drawing of unanswerable questions apart from other uses of the same seed."""
PEOPLE = words("anna boris clara david elena felix maria peter")
THINGS = tuple(f"{how} {what}" for how in words("old red golden") for what in words("lamp book ring mirror kite"))
LOCATIONS = ("rome", "oslo", "paris", "cairo", "the garden", "the market", "the old harbour", "the red castle")
VERBS = (("found", "find"), ("sold", "sell"), ("lost", "lose"), ("hid", "hide"))
FACTS = ("{who} {did} the {what} in {where} .", "in {where} , {who} {did} the {what} .")
QUESTIONS = (
    ("where did {who} {do} the {what} ?", "where"),
    ("what did {who} {do} in {where} ?", "what"),
    ("who {did} the {what} in {where} ?", "who"),
)
"""A question and the part of its fact that answers it."""


class QaGrammar(TextSource):
    """Contexts of 2 to `max_facts` facts. People, things and places of a context all differ, so that there is one
    answer; all words of an answer mean something else in other rows. A question without an answer asks for two things
    that the context mentions, though not together."""

    name: ClassVar[str] = "qa_grammar"
    draws_its_rows = True
    kind = "questions"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        max_facts: Annotated[int, Range(2, 8)] = 3,
        unanswerable_share: Fraction = 0.0,
        max_length: Annotated[int, Range(8, 16_777_216)] | None = None,
        stride: Length | None = None,
        rows: BucketedRows = BucketedRows(batch_size=64),
        seed: Seed = 0,
    ) -> None:
        super().__init__(rows)
        if not 2 <= max_facts <= len(LOCATIONS):
            raise DataError(
                f"data.max_facts={max_facts} must be from 2, so that there is a choice, to {len(LOCATIONS)}, since no "
                f"two facts of a context share a place."
            )
        if not 0 <= unanswerable_share < 1:
            raise DataError(f"data.unanswerable_share={unanswerable_share} must be from 0 to less than 1.")
        self.unanswerable_share, self.asking = unanswerable_share, QuestionFormat(check_max_length(max_length), stride)
        self.sizes, self.max_facts, self.seed = splits.by_name(), max_facts, seed

    @property
    def form(self) -> QuestionFormat:
        return self.asking

    def sample_parameters(self) -> Mapping[str, object]:
        names = ("sizes", "max_facts", "unanswerable_share", "seed")
        return {name: getattr(self, name) for name in names}

    def samples(self) -> Mapping[SplitName, list[Question]]:
        return split_samples(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[Question]:
        """Yield questions without end; some may be equal."""
        generator = np.random.default_rng(self.seed)
        # Apart, so that other shares leave the contexts as they are.
        doubts = np.random.default_rng([self.seed, _DOUBTS])
        most = self.max_facts
        while True:
            numbers = generator.integers(2, most, size=_AT_ONCE, endpoint=True).tolist()
            who, what, where = (_apart(len(of), most, generator) for of in (PEOPLE, THINGS, LOCATIONS))
            verbs, patterns = (generator.integers(len(of), size=(_AT_ONCE, most)).tolist() for of in (VERBS, FACTS))
            kinds, chosen = generator.integers(len(QUESTIONS), size=_AT_ONCE).tolist(), generator.random(_AT_ONCE)
            unanswerable = (doubts.random(_AT_ONCE) < self.unanswerable_share).tolist()
            for row, number in enumerate(numbers):
                facts = [
                    _fact(who[row][index], what[row][index], where[row][index], verbs[row][index])
                    for index in range(number)
                ]
                texts = [FACTS[patterns[row][index]].format(**fact) for index, fact in enumerate(facts)]
                about = int(chosen[row] * number)
                if unanswerable[row]:
                    yield _unanswerable(facts, texts, QUESTIONS[kinds[row]], about)
                else:
                    yield _question_about(facts, texts, QUESTIONS[kinds[row]], about)


def _apart(size: int, number: int, generator: np.random.Generator) -> list[list[int]]:
    """Return in each row different indices of a list of this size."""
    result: list[list[int]] = np.argsort(generator.random((_AT_ONCE, size)), axis=1)[:, :number].tolist()
    return result


def _fact(who: int, what: int, where: int, verb: int) -> dict[str, str]:
    did, do = VERBS[verb]
    return {"who": PEOPLE[who], "what": THINGS[what], "where": LOCATIONS[where], "did": did, "do": do}


def _question_about(facts: list[dict[str, str]], texts: list[str], question: tuple[str, str], index: int) -> Question:
    pattern, part = question
    answer = facts[index][part]
    before = "".join(f"{text} " for text in texts[:index])
    start = len(before) + f" {texts[index]}".index(f" {answer} ")
    return Question(pattern.format(**facts[index]), " ".join(texts), answer, start)


def _unanswerable(facts: list[dict[str, str]], texts: list[str], question: tuple[str, str], index: int) -> Question:
    """Return a question one of whose two elements belongs to another fact."""
    pattern, part = question
    other = facts[(index + 1) % len(facts)]
    swapped = "what" if part == "where" else "where"
    return Question(pattern.format(**{**facts[index], swapped: other[swapped]}), " ".join(texts), None)
