"""Multi-query associative recall (Arora et al. 2023, https://arxiv.org/abs/2312.04927): key-value pairs, then some of
the keys again at distances that follow a power law, each as a query for its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.cache.arrow_columns import Table, slices, smallest_integer
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.generated.problem_forms import spec_of_answers
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.data.splits.sample_splits import SplitSizes, only_test
from headtohead.data.tokenizers import SPECIAL_TOKENS
from headtohead.ranges import BatchSize, Length, Positive, Rows, Seed, Vocabulary

_FIRST_ID = len(SPECIAL_TOKENS)
_NUM_TRIES = 8
_NUMBERS_AT_ONCE = 2**23
"""Random numbers held in memory together."""


class AssociativeRecall(CachedSource):
    """A row is `num_pairs` keys with their values, then queried keys among random tokens. Keys and values are two
    halves of the vocabulary. The target of a queried key is its value; nothing else is scored."""

    name: ClassVar[str] = "associative_recall"
    draws_its_rows = True
    kind = "language"

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
        super().__init__(batch_size)
        self.sizes = splits.by_name()
        self.length, self.num_pairs, self.vocab_size, self.power, self.seed = length, num_pairs, vocab_size, power, seed
        self.num_keys = (vocab_size - _FIRST_ID) // 2
        if num_pairs < 1 or 4 * num_pairs > length:
            raise DataError(
                f"data.num_pairs={num_pairs} must be from 1 to {length // 4} at data.length={length}: a row has room "
                f"for twice as many tokens as all pairs take."
            )
        if num_pairs > self.num_keys:
            raise DataError(
                f"data.vocab_size={vocab_size} has {max(self.num_keys, 0)} keys, fewer than data.num_pairs={num_pairs}"
                f": give at least {_FIRST_ID + 2 * num_pairs}, for special tokens, keys and as many values."
            )
        if power <= 0:
            raise DataError(f"data.power={power} must be above 0: near 0 keys are queried soon, at 1 anywhere.")

    def longer(self, multiple: int) -> AssociativeRecall:
        """Return rows with as many pairs, queried further away."""
        longer = copy(self)
        longer.sizes, longer.length = only_test(self.sizes), multiple * self.length
        return longer

    def parameters(self) -> Mapping[str, Any]:
        names = ("sizes", "length", "num_pairs", "vocab_size", "power", "seed")
        return {name: getattr(self, name) for name in names}

    def make(self) -> PreparedContent:
        """Draw every split with its own random numbers: a larger train split leaves validation and test as they are."""
        tables: dict[str, Table] = {}
        earlier = np.zeros((0, self.length), dtype=smallest_integer(self.vocab_size))
        for index, name in enumerate(reversed(SPLIT_NAMES)):
            tokens, targets = self._distinct_rows(name, earlier, np.random.default_rng([self.seed, index]))
            tables[name] = {"tokens": tokens, "targets": targets}
            earlier = np.concatenate([earlier, tokens])
        return PreparedContent(tables)

    def describe_rows(self) -> DataSpec:
        targets = self.content.tables["train"]["targets"]
        assert isinstance(targets, np.ndarray)
        queries = np.nonzero(targets != IGNORED)
        answered = spec_of_answers(queries[0], targets[queries], max_length=self.length, num_scored=self.num_pairs)
        return replace(answered, vocab_size=self.vocab_size)

    def open_split(self, name: SplitName) -> AnsweredRows:
        tokens, targets = (self.content.tables[name][column] for column in ("tokens", "targets"))
        assert isinstance(tokens, np.ndarray) and isinstance(targets, np.ndarray)
        return AnsweredRows(self, name, tokens, targets)

    def decode(self, ids: Sequence[int]) -> str:
        """Return keys as k0, k1 ..., and values as v0, v1 ..."""
        return " ".join(self._name_of(int(token)) for token in ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for row, tokens, targets in zip(batch.rows, batch.tokens, batch.targets, strict=True):
            queries = targets != IGNORED
            answers = f"{self.decode(tokens[queries].tolist())} -> {self.decode(targets[queries].tolist())}"
            samples.append({"row": int(row), "text": self.decode(tokens.tolist()), "answers": answers})
        return samples

    def _name_of(self, token: int) -> str:
        if token < _FIRST_ID:
            return SPECIAL_TOKENS[token]
        index = token - _FIRST_ID
        return f"k{index}" if index < self.num_keys else f"v{index - self.num_keys}"

    def _distinct_rows(
        self, name: SplitName, earlier: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a split, no two with the same tokens, and none that earlier splits contain."""
        num_rows = self.sizes[name]
        tokens, targets = self._rows(num_rows, generator)
        for _ in range(_NUM_TRIES):
            first = np.unique(np.concatenate([earlier, tokens]), axis=0, return_index=True)[1]
            distinct = np.sort(first[first >= len(earlier)]) - len(earlier)
            if len(distinct) == num_rows:
                return tokens, targets
            more = self._rows(num_rows - len(distinct), generator)
            tokens, targets = np.concatenate([tokens[distinct], more[0]]), np.concatenate([targets[distinct], more[1]])
        raise DataError(
            f"data=associative_recall has too few different rows of data.length={self.length} over data.vocab_size="
            f"{self.vocab_size} for data.num_{name}={num_rows}: lower it, or raise one of these."
        )

    def _rows(self, num_rows: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        widest = max(self.vocab_size, self.length)
        pieces = [
            self._piece(part.stop - part.start, generator)
            for part in slices(num_rows, max(_NUMBERS_AT_ONCE // widest, 1))
        ]
        tokens, targets = zip(*pieces, strict=True)
        return np.concatenate(tokens), np.concatenate(targets)

    def _piece(self, num_rows: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        size = self.num_pairs
        keys = _FIRST_ID + sample_without_replacement(num_rows, size, np.ones(self.num_keys), generator)
        first_value = _FIRST_ID + self.num_keys
        values = first_value + sample_without_replacement(
            num_rows, size, np.ones(self.vocab_size - first_value), generator
        )
        tokens = generator.integers(_FIRST_ID, self.vocab_size, size=(num_rows, self.length))
        tokens[:, 0 : 2 * size : 2], tokens[:, 1 : 2 * size : 2] = keys, values
        room = (self.length - 2 * size) // 2
        distances = sample_without_replacement(num_rows, size, np.arange(1, room + 1) ** (self.power - 1), generator)
        query_positions = 2 * size + 2 * distances
        np.put_along_axis(tokens, query_positions, keys, axis=1)
        targets = np.full((num_rows, self.length), IGNORED)
        np.put_along_axis(targets, query_positions, values, axis=1)
        return tokens.astype(smallest_integer(self.vocab_size)), targets.astype(np.int32)


class AnsweredRows(CachedSplit):
    """Rows of one length with targets of their own."""

    def __init__(self, source: CachedSource, name: SplitName, tokens: np.ndarray, targets: np.ndarray) -> None:
        super().__init__(source, name)
        self._tokens, self._targets = tokens, targets

    def __len__(self) -> int:
        return len(self._tokens)

    def batch(self, rows: np.ndarray) -> Batch:
        return Batch(rows=as_tensor(rows), tokens=as_tensor(self._tokens[rows]), targets=as_tensor(self._targets[rows]))


def sample_without_replacement(
    num_rows: int, size: int, weights: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return in each row `size` different indices, drawn one after another by weight: the first to arrive when each
    takes an exponential time at the rate of its weight (Efraimidis and Spirakis 2006,
    https://doi.org/10.1016/j.ipl.2005.11.003)."""
    times = generator.standard_exponential((num_rows, len(weights)), dtype=np.float32) / weights.astype(np.float32)
    first = np.argpartition(times, size - 1, axis=1)[:, :size]
    order = np.argsort(np.take_along_axis(times, first, axis=1), axis=1)
    return np.take_along_axis(first, order, axis=1)
