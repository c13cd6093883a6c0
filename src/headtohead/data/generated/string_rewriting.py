"""Sequences written again: copied (Graves et al. 2014, https://arxiv.org/abs/1410.5401), reversed, sorted, or copied
in part.

Rows of symbols drawn at random: no token tells another, and whoever writes a row again has kept all of it (Poli et
al. 2024, https://arxiv.org/abs/2403.17844, compression).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import ClassVar, Literal

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import Table, smallest_integer
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSpec, SplitName
from headtohead.data.generated.answered_rows import distinct_from
from headtohead.data.generated.problem_forms import (
    FIRST_ID,
    AnswerSpan,
    ProblemForm,
    Problems,
    check_lengths,
    lengths_beyond,
    padded_symbols,
)
from headtohead.data.generated.procedural_source import DrawnSource
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.data.splits.sample_splits import SplitSizes, only_test
from headtohead.data.tokenizers import EOS, PAD, SPECIAL_TOKENS
from headtohead.ranges import BatchSize, Length, Seed, Symbols, Width


class Rewriting(DrawnSource):
    """The prompt is a row of random symbols, and the answer has as many."""

    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "slots", "pairs")

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        form: Literal["language", "slots", "pairs"] = "language",
        length: Length = 16,
        min_length: Length | None = None,
        test_length: Length | None = None,
        num_symbols: Symbols = 16,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        check_symbols(num_symbols)
        super().__init__(
            sizes=splits.by_name(),
            spans=check_lengths(min_length, length, test_length, fewest=1),
            form=form,
            symbols=[str(number) for number in range(num_symbols)],
            batch_size=batch_size,
            seed=seed,
        )
        self.num_symbols = num_symbols

    @abstractmethod
    def rewritten(self, prompts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the answers to padded prompts."""

    def drawn_parameters(self) -> Mapping[str, object]:
        return {"num_symbols": self.num_symbols}

    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        lengths = span.draw(size, generator)
        prompts = padded_symbols(lengths, span.longest, self.num_symbols, generator)
        return Problems.of(prompts, self.rewritten(prompts, lengths))


class Copy(Rewriting):
    """The symbols as they were."""

    name: ClassVar[str] = "copy"

    def rewritten(self, prompts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        del lengths
        return prompts


class Reverse(Rewriting):
    """The last symbol first."""

    name: ClassVar[str] = "reverse"

    def rewritten(self, prompts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        indices = lengths[:, None] - 1 - np.arange(prompts.shape[1])
        return np.where(indices < 0, PAD, np.take_along_axis(prompts, np.maximum(indices, 0), axis=1))


class Sort(Rewriting):
    """Symbols are numbers, and the smallest comes first."""

    name: ClassVar[str] = "sort"

    def rewritten(self, prompts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        del lengths
        last = np.iinfo(prompts.dtype).max
        ordered = np.sort(np.where(prompts == PAD, last, prompts), axis=1)
        return np.where(ordered == last, PAD, ordered)


def check_symbols(num_symbols: int) -> None:
    if num_symbols < 2:
        raise DataError(f"data.num_symbols={num_symbols} must be at least 2, so that symbols tell something.")


# Selective copying (Jing et al. 2019, https://arxiv.org/abs/1706.02761; Gu and Dao 2023,
# https://arxiv.org/abs/2312.00752): a few symbols at random positions among blanks are written again without the
# blanks.


class SelectiveCopy(DrawnSource):
    """A prompt has `length` positions, and symbols in `num_copied` of them. With form=slots, as in the second paper,
    the answer is written into blanks; with form=language each written symbol is read."""

    name: ClassVar[str] = "selective_copy"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "slots", "pairs")

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        form: Literal["language", "slots", "pairs"] = "slots",
        length: Length = 64,
        min_length: Length | None = None,
        test_length: Length | None = None,
        num_copied: Width = 8,
        num_symbols: Symbols = 16,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        check_symbols(num_symbols)
        if num_copied < 1:
            raise DataError(f"data.num_copied={num_copied} must be at least 1: the answer would be empty.")
        spans = check_lengths(min_length, length, test_length, fewest=1)
        shortest = min(span.shortest for span in spans.values())
        if num_copied > shortest:
            raise DataError(
                f"data.num_copied={num_copied} symbols have no room in the shortest prompt, of {shortest} places: "
                f"lower it, or raise data.length or data.min_length."
            )
        super().__init__(
            sizes=splits.by_name(),
            spans=spans,
            form=form,
            symbols=[*(str(number) for number in range(num_symbols)), "."],
            batch_size=batch_size,
            seed=seed,
        )
        self.num_copied, self.num_symbols = num_copied, num_symbols

    def drawn_parameters(self) -> Mapping[str, object]:
        return {"num_copied": self.num_copied, "num_symbols": self.num_symbols}

    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        """Draw problems in which the positions with the smallest random numbers hold the symbols: all sets of positions
        are equally likely."""
        lengths = span.draw(size, generator)
        past = lengths_beyond(lengths, span.longest)
        answers = generator.integers(FIRST_ID, FIRST_ID + self.num_symbols, size=(size, self.num_copied))
        order = generator.random((size, span.longest), dtype=np.float32)
        order[past] = 2.0
        indices = np.sort(np.argpartition(order, self.num_copied - 1, axis=1)[:, : self.num_copied], axis=1)
        prompts = np.where(past, PAD, FIRST_ID + self.num_symbols)
        np.put_along_axis(prompts, indices, answers, axis=1)
        return Problems.of(prompts, answers)


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
