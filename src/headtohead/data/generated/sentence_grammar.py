"""Short reviews with a verdict: the conjunction determines which clause decides, and negation what it means, so that no
single word predicts the label, and word counts predict it poorly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from headtohead.data.data_source import SplitName
from headtohead.data.row_formats.labelled_text import Labelled, LabelledSource
from headtohead.data.row_formats.text_source import BucketedRows
from headtohead.data.splits.sample_splits import SplitSizes, split_samples
from headtohead.ranges import Seed

_AT_ONCE = 4096
"""Sentences written together."""
NEGATIVE, POSITIVE = 0, 1
SUBJECTS = (
    "film", "story", "plot", "acting", "music", "ending", "cast", "script", "camera work", "humour", "opening",
    "dialogue", "pace", "scenery", "sound", "main character",
)  # fmt: skip
ADJECTIVES = {
    NEGATIVE: ("dull", "weak", "awful", "clumsy", "boring", "poor", "lifeless", "confusing", "bland", "shallow"),
    POSITIVE: ("gripping", "strong", "superb", "elegant", "moving", "fine", "lively", "clear", "fresh", "deep"),
}
PLAIN = ("was", "was truly", "was certainly", "seemed", "remained")
NEGATED = ("was not", "was never", "was hardly", "was far from", "was anything but")
NEGATED_SHARE = 1 / 3
"""A share below a half, so that adjectives are informative and learning can begin."""
PATTERNS = (
    ("{decides} .", 3),
    ("although {concedes} , {decides} .", 2),
    ("{decides} , although {concedes} .", 2),
    ("{concedes} , but {decides} .", 2),
    ("{decides} , whatever they say : {concedes} .", 1),
)
"""Sentences of a clause that decides and one that does not, and how common each is."""


@dataclass(frozen=True)
class Clauses:
    """Many clauses: their texts, and the verdict each gives."""

    texts: np.ndarray
    verdicts: np.ndarray


class SentenceGrammar(LabelledSource):
    """Sentences that all differ, about half of them positive."""

    name: ClassVar[str] = "sentence_grammar"
    draws_its_rows = True
    class_names: ClassVar[tuple[str, ...]] = ("negative", "positive")

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(num_train=10_000),
        rows: BucketedRows = BucketedRows(batch_size=64),
        seed: Seed = 0,
    ) -> None:
        super().__init__(rows)
        self.sizes, self.seed = splits.by_name(), seed

    def sample_parameters(self) -> Mapping[str, object]:
        return {"sizes": self.sizes, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[Labelled]]:
        return split_samples(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[Labelled]:
        """Yield reviews without end; some may be equal."""
        generator = np.random.default_rng(self.seed)
        weights = np.array([weight for _, weight in PATTERNS])
        while True:
            decides, concedes = written_clauses(_AT_ONCE, generator), written_clauses(_AT_ONCE, generator)
            chosen = generator.choice(len(PATTERNS), size=_AT_ONCE, p=weights / weights.sum())
            for index, pattern in enumerate(chosen):
                text = PATTERNS[pattern][0].format(decides=decides.texts[index], concedes=concedes.texts[index])
                yield text, int(decides.verdicts[index])


def written_clauses(size: int, generator: np.random.Generator) -> Clauses:
    """Draw the verdict first; a negated clause contains its opposite."""
    verdicts, negated = generator.integers(2, size=size), (generator.random(size) < NEGATED_SHARE).astype(np.int64)
    verbs = np.array([PLAIN, NEGATED], dtype=object)[negated, generator.integers(len(PLAIN), size=size)]
    adjectives = np.array([ADJECTIVES[NEGATIVE], ADJECTIVES[POSITIVE]], dtype=object)
    predicates = adjectives[verdicts ^ negated, generator.integers(adjectives.shape[1], size=size)]
    subjects = np.array(SUBJECTS, dtype=object)[generator.integers(len(SUBJECTS), size=size)]
    return Clauses("the " + subjects + " " + verbs + " " + predicates, verdicts)
