"""Rows of symbols drawn at random: no token tells another, and whoever writes a row again has kept all of it (Poli et
al. 2024, https://arxiv.org/abs/2403.17844, compression)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import ClassVar

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import Table, smallest_integer
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.generated.answered_rows import distinct_from
from headtohead.data.generated.problem_forms import FIRST_ID
from headtohead.data.generated.string_rewriting import check_symbols
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.data.splits.sample_splits import SplitSizes, only_test
from headtohead.data.tokenizers import EOS, SPECIAL_TOKENS
from headtohead.ranges import BatchSize, Length, Seed, Symbols


class RandomTokens(CachedSource):
    """A row is symbols, each as likely as any other, and the end token. No row occurs twice."""

    name: ClassVar[str] = "random_tokens"
    draws_its_rows = True
    kind = "language"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        length: Length = 32,
        num_symbols: Symbols = 15,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        super().__init__(batch_size)
        check_symbols(num_symbols)
        self.sizes, self.length, self.num_symbols, self.seed = splits.by_name(), length, num_symbols, seed
        if 2 * sum(self.sizes.values()) > num_symbols ** (length - 1):
            raise DataError(
                f"data.length={length} over data.num_symbols={num_symbols} makes fewer than twice as many rows as are "
                f"requested, {sum(self.sizes.values())}: lower data.num_train, or raise one of these."
            )

    def longer(self, multiple: int) -> RandomTokens:
        """Return longer rows of the same symbols."""
        longer = copy(self)
        longer.sizes, longer.length = only_test(self.sizes), multiple * self.length
        return longer

    def parameters(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in ("sizes", "length", "num_symbols", "seed")}

    def make(self) -> PreparedContent:
        """Draw every split with its own random numbers: a larger train split leaves validation and test as they are."""
        tables: dict[str, Table] = {}
        earlier = np.zeros((0, self.length), dtype=smallest_integer(FIRST_ID + self.num_symbols))
        for index, name in enumerate(reversed(SPLIT_NAMES)):
            generator = np.random.default_rng([self.seed, index])
            own = earlier[:0]
            while (missing := self.sizes[name] - len(own)) > 0:
                drawn = generator.integers(FIRST_ID, FIRST_ID + self.num_symbols, size=(missing, self.length))
                drawn[:, -1] = EOS
                drawn = drawn.astype(earlier.dtype)
                own = np.concatenate([own, drawn[distinct_from(np.concatenate([earlier, own]), drawn)]])
            tables[name] = {"tokens": own}
            earlier = np.concatenate([earlier, own])
        return PreparedContent(tables)

    def describe_rows(self) -> DataSpec:
        return DataSpec("language", vocab_size=FIRST_ID + self.num_symbols, max_length=self.length)

    def open_split(self, name: SplitName) -> PlainRows:
        tokens = self.content.tables[name]["tokens"]
        assert isinstance(tokens, np.ndarray)
        return PlainRows(self, name, tokens)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the numbers of symbols with spaces between."""
        return " ".join(SPECIAL_TOKENS[token] if token < FIRST_ID else str(token - FIRST_ID) for token in map(int, ids))

    def describe(self, batch: Batch) -> list[dict[str, object]]:
        assert batch.tokens is not None
        rows = zip(batch.rows, batch.tokens, strict=True)
        return [{"row": int(row), "text": self.decode(tokens.tolist())} for row, tokens in rows]


class PlainRows(CachedSplit):
    """Rows of one length without targets of their own."""

    def __init__(self, source: CachedSource, name: SplitName, tokens: np.ndarray) -> None:
        super().__init__(source, name)
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def batch(self, rows: np.ndarray) -> Batch:
        return Batch(rows=as_tensor(rows), tokens=as_tensor(self._tokens[rows]))
