"""Pairs of sentences by grammar: whether the first implies the second, or how similar their meanings are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import ClassVar, Literal, get_args

import numpy as np

from headtohead.data.data_source import DataError, SplitName
from headtohead.data.generated.english_grammar import words
from headtohead.data.generated.stories import NEXT, PEOPLE, RANDOM, WHEN, story_pairs
from headtohead.data.row_formats.labelled_text import ClassFormat, LabelledPair, ScoredPair, ScoreFormat
from headtohead.data.row_formats.text_source import BucketedRows, TextSource
from headtohead.data.splits.sample_splits import SplitSizes, split_samples
from headtohead.ranges import Seed

_AT_ONCE = 4096
"""Pairs written together."""
ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")
SCENES = (
    ("went sailing / caught a herring", "on the water / at sea"),
    ("slept until noon / lay down to rest", "in bed / under a blanket"),
    ("baked the bread / peeled the apples", "in the kitchen / at the stove"),
    ("sang before the king / played to a full house", "on stage / in front of an audience"),
)
"""The things that someone may do, and where that is; nobody is in two of these places."""
_ACTIONS, _LOCATIONS = (tuple(tuple(phrase.split(" / ")) for phrase in side) for side in zip(*SCENES, strict=True))
_NUM_WAYS = 2
"""The number of wordings of each."""
OPENINGS = (
    "", "then ", "they say that ", "it seems that ", "at that time ", "as we know , ", "no doubt ", "of course ",
)  # fmt: skip
"""They make pairs differ, and carry no information."""
NEGATED_SHARES = {ENTAILMENT: 0.05, NEUTRAL: 0.1, CONTRADICTION: 0.2}
"""The shares of negations: as in collections of this kind, a negation hints at a contradiction."""


def claim_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Yield, without end, a report, a claim, and their relation.

    A claim with the other pronoun is about someone whom the report does not mention. Every word occurs in claims of
    every label: only the pronoun beside the name, and the place beside the deed, tell which it is.
    """
    while True:
        people, scenes = generator.integers(len(PEOPLE), size=_AT_ONCE), generator.integers(len(SCENES), size=_AT_ONCE)
        elsewhere = (scenes + generator.integers(1, len(SCENES), size=_AT_ONCE)) % len(SCENES)
        ways = generator.integers(_NUM_WAYS, size=(_AT_ONCE, 2))
        when, openings = (generator.integers(len(of), size=_AT_ONCE) for of in (WHEN, OPENINGS))
        labels = generator.integers(len(LABELS), size=_AT_ONCE)
        negated = generator.random(_AT_ONCE) < np.array([NEGATED_SHARES[label] for label in LABELS])[labels]
        # A neutral claim is undecided; else a claim holds where it names the place of the deed or denies another.
        there = np.where(labels == 1, generator.random(_AT_ONCE) < 0.5, (labels == 0) != negated)
        for row in range(_AT_ONCE):
            name, pronoun = PEOPLE[people[row]]
            if LABELS[labels[row]] == NEUTRAL:
                pronoun = "he" if pronoun == "she" else "she"
            action = _ACTIONS[scenes[row]][ways[row, 0]]
            index = _LOCATIONS[scenes[row] if there[row] else elsewhere[row]][ways[row, 1]]
            was = "was not" if negated[row] else "was"
            report, claim = f"{WHEN[when[row]]}{name} {action} .", f"{OPENINGS[openings[row]]}{pronoun} {was} {index} ."
            yield report, claim, LABELS[labels[row]]


Relation = Literal["entailment", "next"]
CLASS_NAMES: dict[str, tuple[str, ...]] = {
    "entailment": (ENTAILMENT, NEUTRAL, CONTRADICTION),
    "next": (NEXT, RANDOM),
}


class PairGrammar(TextSource):
    """Pairs that all differ, all labels as common."""

    name: ClassVar[str] = "pair_grammar"
    draws_its_rows = True
    kind = "labelled_text"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(num_train=10_000),
        relation: Relation = "entailment",
        rows: BucketedRows = BucketedRows(batch_size=64),
        seed: Seed = 0,
    ) -> None:
        super().__init__(rows)
        if relation not in get_args(Relation):
            raise DataError(f"data.relation={relation} is unknown: choose one of {', '.join(get_args(Relation))}.")
        self.sizes, self.relation, self.seed = splits.by_name(), relation, seed

    @property
    def form(self) -> ClassFormat:
        return ClassFormat(CLASS_NAMES[self.relation])

    def sample_parameters(self) -> Mapping[str, object]:
        return {"sizes": self.sizes, "relation": self.relation, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[LabelledPair]]:
        return split_samples(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[LabelledPair]:
        generator = np.random.default_rng(self.seed)
        return claim_pairs(generator) if self.relation == "entailment" else story_pairs(generator)


# Pairs of sentences and how similar their meanings are, from 0 to 5, as people grade it in STS-B (Cer et al. 2017,
# https://arxiv.org/abs/1708.00055).


"""Pairs written together."""
_REWORDED = 0.3
"""The share of parts with the same meaning in another word: learning needs many in the same one to begin."""


def _synonyms(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(pair.split("/")) for pair in words(text))


PARTS = {
    "who": _synonyms("boy/lad woman/lady king/ruler doctor/physician sailor/seaman child/kid"),
    "how": _synonyms("quickly/rapidly quietly/silently gladly/happily often/frequently rarely/seldom"),
    "did": _synonyms("bought/purchased found/discovered hid/concealed fixed/repaired threw/hurled"),
    "what": _synonyms("stone/rock gift/present picture/image coat/jacket ship/vessel lamp/lantern"),
    "where": _synonyms("wood/forest shop/store road/street market/bazaar hill/slope"),
}
"""The parts of a sentence; each has one of several meanings, in one of two words."""
PATTERNS = (
    "the {who} {how} {did} the {what} near the {where} .",
    "near the {where} the {who} {did} the {what} {how} .",
)


class SimilarityGrammar(TextSource):
    """Pairs that all differ, all grades equally common: the grade is the number of parts with the same meaning, though
    rarely all in the same words or at the same position."""

    name: ClassVar[str] = "similarity_grammar"
    draws_its_rows = True
    kind = "scored_text"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(num_train=10_000),
        rows: BucketedRows = BucketedRows(batch_size=64),
        seed: Seed = 0,
    ) -> None:
        super().__init__(rows)
        self.sizes, self.seed = splits.by_name(), seed

    @property
    def form(self) -> ScoreFormat:
        return ScoreFormat()

    def sample_parameters(self) -> Mapping[str, object]:
        return {"sizes": self.sizes, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[ScoredPair]]:
        return split_samples(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[ScoredPair]:
        """Yield scored pairs without end; some may be equal."""
        generator = np.random.default_rng(self.seed)
        numbers = np.array([len(meanings) for meanings in PARTS.values()])
        while True:
            first = generator.integers(numbers, size=(_AT_ONCE, len(numbers)))
            others = (first + generator.integers(1, numbers, size=first.shape)) % numbers
            grades = generator.integers(0, len(numbers), size=_AT_ONCE, endpoint=True)
            is_same = np.argsort(generator.random(first.shape), axis=1) < grades[:, None]
            second = np.where(is_same, first, others)
            wordings = generator.integers(2, size=first.shape)
            again = np.where(generator.random(first.shape) < _REWORDED, 1 - wordings, wordings)
            patterns = generator.integers(len(PATTERNS), size=(2, _AT_ONCE))
            for row in range(_AT_ONCE):
                yield (
                    _sentence(first[row], wordings[row], int(patterns[0, row])),
                    _sentence(second[row], again[row], int(patterns[1, row])),
                    float(grades[row]),
                )


def _sentence(meanings: np.ndarray, wordings: np.ndarray, pattern: int) -> str:
    chosen = zip(PARTS.items(), meanings.tolist(), wordings.tolist(), strict=True)
    return PATTERNS[pattern].format(**{part: ways[meaning][wording] for (part, ways), meaning, wording in chosen})
