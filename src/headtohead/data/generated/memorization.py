"""Memorisation (Poli et al. 2024, https://arxiv.org/abs/2403.17844, appendix B): facts that no row tells, and that a
model can only have in its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import DataError
from headtohead.data.generated.answered_rows import Answered, AnsweredSource
from headtohead.data.generated.problem_forms import FIRST_ID
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.ranges import BatchSize, Range, Seed, Symbols


class Memorization(AnsweredSource):
    """A row is keys drawn at random, each followed by a blank whose target is the key's value. Which value a key has is
    drawn once from the seed: all rows and splits share these facts, and differ in the order of their keys."""

    name: ClassVar[str] = "memorization"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        length: Annotated[int, Range(2, 16_777_216)] = 32,
        num_facts: Symbols = 128,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        tokens = FIRST_ID + 1 + 2 * num_facts
        super().__init__(splits=splits, length=length, num_tokens=tokens, batch_size=batch_size, seed=seed)
        if length < 2 or length % 2:
            raise DataError(f"data.length={length} must be at least 2 and even: a blank follows each key.")
        if num_facts < 2:
            raise DataError(f"data.num_facts={num_facts} must be at least 2, so that there is something to know.")
        self.num_facts = num_facts

    def row_parameters(self) -> Mapping[str, object]:
        return {"num_facts": self.num_facts}

    def name_of(self, token: int) -> str:
        index = token - FIRST_ID
        if index == 2 * self.num_facts:
            return "."
        return f"k{index}" if index < self.num_facts else f"v{index - self.num_facts}"

    def facts(self) -> np.ndarray:
        """Return the token of the value of each key; no two keys share a value."""
        generator = np.random.default_rng([self.seed, 3])  # 0 to 2 draw the rows of the splits
        return FIRST_ID + self.num_facts + generator.permutation(self.num_facts)

    def draw(self, num_rows: int, generator: np.random.Generator) -> Answered:
        keys = generator.integers(self.num_facts, size=(num_rows, self.length // 2))
        tokens = np.full((num_rows, self.length), FIRST_ID + 2 * self.num_facts)
        targets = np.full((num_rows, self.length), IGNORED)
        tokens[:, 0::2], targets[:, 1::2] = FIRST_ID + keys, self.facts()[keys]
        return tokens, targets
