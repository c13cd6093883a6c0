"""Questions about a few sentences of who did what where; each answer is in the text, and only the question tells which
of the people, things and places it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from headtohead.data.contracts import DataError, SplitName
from headtohead.data.dealing import check_sizes, deal
from headtohead.data.generated.english import words
from headtohead.data.questions import Question, QuestionForm
from headtohead.data.texts import TextSource, check_max_length
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Count, Fraction, Length, Rows, Seed, Vocabulary

_AT_ONCE = 2048
"""Contexts written together."""
_DOUBTS = 1
"""Keeps the drawing of unanswerable questions apart from other uses of the same seed."""
PEOPLE = words("anna boris clara david elena felix maria peter")
THINGS = tuple(f"{how} {what}" for how in words("old red golden") for what in words("lamp book ring mirror kite"))
PLACES = ("rome", "oslo", "paris", "cairo", "the garden", "the market", "the old harbour", "the red castle")
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
    answer; all words of an answer stand in other rows for something else. A question without an answer asks for two
    things that the context tells of, though not of both together."""

    name: ClassVar[str] = "qa_grammar"
    draws_its_rows = True
    kind = "questions"

    def __init__(
        self,
        *,
        num_train: Rows = 20_000,
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        max_facts: Count = 3,
        unanswerable_share: Fraction = 0.0,
        max_length: Length | None = None,
        stride: Length | None = None,
        batch_size: BatchSize = 64,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size, bucket_by_length=bucket_by_length
        )
        if not 2 <= max_facts <= len(PLACES):
            raise DataError(
                f"data.max_facts={max_facts} must be from 2, so that there is a choice, to {len(PLACES)}, since no two "
                f"facts of a context share a place."
            )
        if not 0 <= unanswerable_share < 1:
            raise DataError(f"data.unanswerable_share={unanswerable_share} must be from 0 to less than 1.")
        self.unanswerable_share, self.asking = unanswerable_share, QuestionForm(check_max_length(max_length), stride)
        self.sizes, self.max_facts, self.seed = check_sizes(num_train, num_validation, num_test), max_facts, seed

    @property
    def form(self) -> QuestionForm:
        return self.asking

    def sample_parameters(self) -> Mapping[str, Any]:
        names = ("sizes", "max_facts", "unanswerable_share", "seed")
        return {name: getattr(self, name) for name in names}

    def samples(self) -> Mapping[SplitName, list[Question]]:
        return deal(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[Question]:
        """Without end; some may be alike."""
        generator = np.random.default_rng(self.seed)
        # Apart, so that other shares leave the contexts as they are.
        doubts = np.random.default_rng([self.seed, _DOUBTS])
        most = self.max_facts
        while True:
            numbers = generator.integers(2, most, size=_AT_ONCE, endpoint=True).tolist()
            who, what, where = (_apart(len(of), most, generator) for of in (PEOPLE, THINGS, PLACES))
            verbs, patterns = (generator.integers(len(of), size=(_AT_ONCE, most)).tolist() for of in (VERBS, FACTS))
            asked, chosen = generator.integers(len(QUESTIONS), size=_AT_ONCE).tolist(), generator.random(_AT_ONCE)
            unanswerable = (doubts.random(_AT_ONCE) < self.unanswerable_share).tolist()
            for row, number in enumerate(numbers):
                facts = [
                    _fact(who[row][place], what[row][place], where[row][place], verbs[row][place])
                    for place in range(number)
                ]
                texts = [FACTS[patterns[row][place]].format(**fact) for place, fact in enumerate(facts)]
                about = int(chosen[row] * number)
                if unanswerable[row]:
                    yield _unanswerable(facts, texts, QUESTIONS[asked[row]], about)
                else:
                    yield _asked(facts, texts, QUESTIONS[asked[row]], about)


def _apart(size: int, number: int, generator: np.random.Generator) -> list[list[int]]:
    """In each row different places of a list of this size."""
    result: list[list[int]] = np.argsort(generator.random((_AT_ONCE, size)), axis=1)[:, :number].tolist()
    return result


def _fact(who: int, what: int, where: int, verb: int) -> dict[str, str]:
    did, do = VERBS[verb]
    return {"who": PEOPLE[who], "what": THINGS[what], "where": PLACES[where], "did": did, "do": do}


def _asked(facts: list[dict[str, str]], texts: list[str], question: tuple[str, str], place: int) -> Question:
    pattern, part = question
    answer = facts[place][part]
    before = "".join(f"{text} " for text in texts[:place])
    start = len(before) + f" {texts[place]}".index(f" {answer} ")
    return Question(pattern.format(**facts[place]), " ".join(texts), answer, start)


def _unanswerable(facts: list[dict[str, str]], texts: list[str], question: tuple[str, str], place: int) -> Question:
    """One of the two things that the question names is another fact's."""
    pattern, part = question
    other = facts[(place + 1) % len(facts)]
    swapped = "what" if part == "where" else "where"
    return Question(pattern.format(**{**facts[place], swapped: other[swapped]}), " ".join(texts), None)
