"""Multi-query associative recall (Arora et al. 2023, https://arxiv.org/abs/2312.04927): key-value pairs, then some of
the keys again at distances that follow a power law, each as a query for its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import DataError
from headtohead.data.generated.answered_rows import Answered, AnsweredSource, sample_without_replacement
from headtohead.data.generated.problem_forms import FIRST_ID
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.ranges import BatchSize, Length, Positive, Rows, Seed, Vocabulary


class AssociativeRecall(AnsweredSource):
    """A row is `num_pairs` keys with their values, then queried keys among random tokens. Keys and values are two
    halves of the vocabulary. The target of a queried key is its value; nothing else is scored. Longer rows have as
    many pairs, queried further away."""

    name: ClassVar[str] = "associative_recall"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        length: Length = 64,
        num_pairs: Rows = 8,
        vocab_size: Vocabulary = 64,
        power: Positive = 0.01,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        super().__init__(splits=splits, length=length, num_tokens=vocab_size, batch_size=batch_size, seed=seed)
        self.num_pairs, self.power = num_pairs, power
        self.num_keys = (vocab_size - FIRST_ID) // 2
        if num_pairs < 1 or 4 * num_pairs > length:
            raise DataError(
                f"data.num_pairs={num_pairs} must be from 1 to {length // 4} at data.length={length}: a row has room "
                f"for twice as many tokens as all pairs take."
            )
        if num_pairs > self.num_keys:
            raise DataError(
                f"data.vocab_size={vocab_size} has {max(self.num_keys, 0)} keys, fewer than data.num_pairs={num_pairs}"
                f": give at least {FIRST_ID + 2 * num_pairs}, for special tokens, keys and as many values."
            )
        if power <= 0:
            raise DataError(f"data.power={power} must be above 0: near 0 keys are queried soon, at 1 anywhere.")

    def row_parameters(self) -> Mapping[str, object]:
        return {"num_pairs": self.num_pairs, "vocab_size": self.num_tokens, "power": self.power}

    def name_of(self, token: int) -> str:
        index = token - FIRST_ID
        return f"k{index}" if index < self.num_keys else f"v{index - self.num_keys}"

    def draw(self, num_rows: int, generator: np.random.Generator) -> Answered:
        size = self.num_pairs
        keys = FIRST_ID + sample_without_replacement(num_rows, size, np.ones(self.num_keys), generator)
        first_value = FIRST_ID + self.num_keys
        values = first_value + sample_without_replacement(
            num_rows, size, np.ones(self.num_tokens - first_value), generator
        )
        tokens = generator.integers(FIRST_ID, self.num_tokens, size=(num_rows, self.length))
        tokens[:, 0 : 2 * size : 2], tokens[:, 1 : 2 * size : 2] = keys, values
        room = (self.length - 2 * size) // 2
        distances = sample_without_replacement(num_rows, size, np.arange(1, room + 1) ** (self.power - 1), generator)
        query_positions = 2 * size + 2 * distances
        np.put_along_axis(tokens, query_positions, keys, axis=1)
        targets = np.full((num_rows, self.length), IGNORED)
        np.put_along_axis(targets, query_positions, values, axis=1)
        return tokens, targets
