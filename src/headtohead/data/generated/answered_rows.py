"""Drawn rows of tokens, all of one length, in which some tokens are answered: the base of problems of recall."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.cache.arrow_columns import Table, slices, smallest_integer
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.generated.problem_forms import FIRST_ID, spec_of_answers
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.data.splits.sample_splits import SplitSizes, only_test
from headtohead.data.tokenizers import SPECIAL_TOKENS

_NUM_TRIES = 8
_NUMBERS_AT_ONCE = 2**23
"""Random numbers held in memory together."""
Answered = tuple[np.ndarray, np.ndarray]
"""Tokens, and beside each the token that is its answer, or IGNORED."""


class AnsweredSource(CachedSource):
    """Subclasses define how rows are drawn. No row occurs twice, in one split or in two."""

    draws_its_rows = True
    kind = "language"

    def __init__(self, *, splits: SplitSizes, length: int, num_tokens: int, batch_size: int, seed: int) -> None:
        super().__init__(batch_size)
        self.sizes, self.length, self.num_tokens, self.seed = splits.by_name(), length, num_tokens, seed

    @abstractmethod
    def row_parameters(self) -> Mapping[str, object]:
        """Return everything that determines the rows beside their length, their number and the seed."""

    @abstractmethod
    def draw(self, num_rows: int, generator: np.random.Generator) -> Answered:
        """Draw rows of `length` tokens with their answers; some may be equal."""

    @abstractmethod
    def name_of(self, token: int) -> str:
        """Return the name of a token that is not special."""

    @property
    def numbers_in_row(self) -> int:
        """Return how many random numbers a row needs, by which memory is planned."""
        return max(self.num_tokens, self.length)

    def longer(self, multiple: int) -> Self:
        """Return rows of the same rule and so many times as long."""
        longer = copy(self)
        longer.sizes, longer.length = only_test(self.sizes), multiple * self.length
        return longer

    def parameters(self) -> Mapping[str, object]:
        return {**self.row_parameters(), "sizes": self.sizes, "length": self.length, "seed": self.seed}

    def make(self) -> PreparedContent:
        """Draw every split with its own random numbers: a larger train split leaves validation and test as they are."""
        tables: dict[str, Table] = {}
        earlier = np.zeros((0, self.length), dtype=smallest_integer(self.num_tokens))
        for index, name in enumerate(reversed(SPLIT_NAMES)):
            tokens, targets = self._distinct_rows(name, earlier, np.random.default_rng([self.seed, index]))
            tables[name] = {"tokens": tokens, "targets": targets}
            earlier = np.concatenate([earlier, tokens])
        return PreparedContent(tables)

    def describe_rows(self) -> DataSpec:
        are_targets = {name: self._column(name, "targets") != IGNORED for name in SPLIT_NAMES}
        queries = np.nonzero(are_targets["train"])
        most = max(int(are_target.sum(1).max()) for are_target in are_targets.values())
        answers = self._column("train", "targets")[queries]
        answered = spec_of_answers(queries[0], answers, max_length=self.length, num_scored=most)
        return replace(answered, vocab_size=self.num_tokens)

    def open_split(self, name: SplitName) -> AnsweredRows:
        return AnsweredRows(self, name, self._column(name, "tokens"), self._column(name, "targets"))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the names of tokens with spaces between, as in k0 v3."""
        return " ".join(
            SPECIAL_TOKENS[token] if token < FIRST_ID else self.name_of(token) for token in (int(each) for each in ids)
        )

    def describe(self, batch: Batch) -> list[dict[str, object]]:
        assert batch.tokens is not None and batch.targets is not None
        samples = []
        for row, tokens, targets in zip(batch.rows, batch.tokens, batch.targets, strict=True):
            queries = targets != IGNORED
            answers = f"{self.decode(tokens[queries].tolist())} -> {self.decode(targets[queries].tolist())}"
            samples.append({"row": int(row), "text": self.decode(tokens.tolist()), "answers": answers})
        return samples

    def _column(self, name: SplitName, column: str) -> np.ndarray:
        values = self.content.tables[name][column]
        assert isinstance(values, np.ndarray)
        return values

    def _distinct_rows(self, name: SplitName, earlier: np.ndarray, generator: np.random.Generator) -> Answered:
        """Return the rows of a split, no two with the same tokens, and none that earlier splits contain."""
        num_rows = self.sizes[name]
        tokens, targets = self._rows(num_rows, generator)
        for _ in range(_NUM_TRIES):
            distinct = distinct_from(earlier, tokens)
            if len(distinct) == num_rows:
                return tokens, targets
            more = self._rows(num_rows - len(distinct), generator)
            tokens, targets = np.concatenate([tokens[distinct], more[0]]), np.concatenate([targets[distinct], more[1]])
        raise DataError(
            f"data={self.name} has too few different rows of data.length={self.length} over {self.num_tokens} tokens "
            f"for data.num_{name}={num_rows}: lower it, or raise the length or the number of tokens."
        )

    def _rows(self, num_rows: int, generator: np.random.Generator) -> Answered:
        size = max(_NUMBERS_AT_ONCE // self.numbers_in_row, 1)
        pieces = [self.draw(part.stop - part.start, generator) for part in slices(num_rows, size)]
        tokens, targets = zip(*pieces, strict=True)
        return np.concatenate(tokens).astype(smallest_integer(self.num_tokens)), np.concatenate(targets).astype(
            np.int32
        )


class AnsweredRows(CachedSplit):
    """Rows of one length with targets of their own."""

    def __init__(self, source: CachedSource, name: SplitName, tokens: np.ndarray, targets: np.ndarray) -> None:
        super().__init__(source, name)
        self._tokens, self._targets = tokens, targets

    def __len__(self) -> int:
        return len(self._tokens)

    def batch(self, rows: np.ndarray) -> Batch:
        return Batch(rows=as_tensor(rows), tokens=as_tensor(self._tokens[rows]), targets=as_tensor(self._targets[rows]))


def distinct_from(earlier: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return the indices of the rows that occur for the first time, and not among the earlier ones."""
    first = np.unique(np.concatenate([earlier, tokens]), axis=0, return_index=True)[1]
    distinct: np.ndarray = np.sort(first[first >= len(earlier)]) - len(earlier)
    return distinct


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
