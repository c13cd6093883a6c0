"""Sequences written again: copied (Graves et al. 2014, https://arxiv.org/abs/1410.5401), reversed, or sorted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from headtohead.data.contracts import DataError
from headtohead.data.dealing import check_sizes
from headtohead.data.generated.drawing import DrawnSource
from headtohead.data.generated.problems import ProblemForm, Problems, Span, check_lengths, padded_symbols
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Length, Rows, Seed, Vocabulary


class Rewriting(DrawnSource):
    """The prompt is a row of random symbols, and the answer has as many."""

    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "slots", "pairs")

    def __init__(
        self,
        *,
        num_train: Rows = 20_000,
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        form: Literal["language", "slots", "pairs"] = "language",
        length: Length = 16,
        min_length: Length | None = None,
        test_length: Length | None = None,
        num_symbols: Vocabulary = 16,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        check_symbols(num_symbols)
        super().__init__(
            sizes=check_sizes(num_train, num_validation, num_test),
            spans=check_lengths(min_length, length, test_length, fewest=1),
            form=form,
            symbols=[str(number) for number in range(num_symbols)],
            batch_size=batch_size,
            seed=seed,
        )
        self.num_symbols = num_symbols

    @abstractmethod
    def rewritten(self, prompts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The answers to padded prompts."""

    def drawn_parameters(self) -> Mapping[str, Any]:
        return {"num_symbols": self.num_symbols}

    def draw(self, size: int, span: Span, generator: np.random.Generator) -> Problems:
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
        places = lengths[:, None] - 1 - np.arange(prompts.shape[1])
        return np.where(places < 0, PAD, np.take_along_axis(prompts, np.maximum(places, 0), axis=1))


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
