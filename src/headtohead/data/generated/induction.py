"""Induction heads (Olsson et al. 2022, https://arxiv.org/abs/2209.11895): whatever followed a symbol before follows it
again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.data_source import DataError
from headtohead.data.generated.problem_forms import (
    FIRST_ID,
    AnswerSpan,
    Layout,
    ProblemForm,
    Problems,
    check_lengths,
    lengths_beyond,
    padded_symbols,
)
from headtohead.data.generated.procedural_source import DrawnSource
from headtohead.data.generated.string_rewriting import check_symbols
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Range, Seed, Symbols

Pattern = Literal["trigger", "repeat"]


class Induction(DrawnSource):
    """Induction problems. With pattern=trigger (Gu and Dao 2023, https://arxiv.org/abs/2312.00752) a special symbol
    stands once among random ones and again at the end: what followed it is the one answer. With pattern=repeat a random
    half comes twice, and each symbol of the second time has its successor for an answer."""

    name: ClassVar[str] = "induction"
    kind = "language"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language",)
    layout: ClassVar[Layout] = "along"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        pattern: Pattern = "trigger",
        length: Annotated[int, Range(3, 16_777_216)] = 64,
        min_length: Annotated[int, Range(3, 16_777_216)] | None = None,
        test_length: Annotated[int, Range(3, 16_777_216)] | None = None,
        num_symbols: Symbols = 16,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        check_symbols(num_symbols)
        if pattern not in get_args(Pattern):
            raise DataError(f"data.pattern={pattern} is unknown: choose one of {', '.join(get_args(Pattern))}.")
        super().__init__(
            sizes=splits.by_name(),
            spans=check_lengths(min_length, length, test_length, fewest=3),
            form="language",
            symbols=[*(str(number) for number in range(num_symbols)), "trigger"],
            batch_size=batch_size,
            seed=seed,
        )
        self.pattern, self.num_symbols = pattern, num_symbols

    def drawn_parameters(self) -> Mapping[str, Any]:
        return {"pattern": self.pattern, "num_symbols": self.num_symbols}

    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        lengths = span.draw(size, generator)
        prompts = padded_symbols(lengths, span.longest, self.num_symbols, generator)
        return (
            self._triggered(prompts, lengths, generator) if self.pattern == "trigger" else _repeated(prompts, lengths)
        )

    def _triggered(self, prompts: np.ndarray, lengths: np.ndarray, generator: np.random.Generator) -> Problems:
        rows, trigger = np.arange(len(prompts)), FIRST_ID + self.num_symbols
        first = generator.integers(0, lengths - 2)
        answers = np.full_like(prompts, PAD)
        answers[rows, lengths - 1] = prompts[rows, first + 1]
        prompts[rows, first] = trigger
        prompts[rows, lengths - 1] = trigger
        return Problems.of(prompts, answers)


def _repeated(prompts: np.ndarray, lengths: np.ndarray) -> Problems:
    """Return repeated prompts, whose first half is so long that it contains the last symbol's successor."""
    period = lengths // 2 + 1
    columns = np.arange(prompts.shape[1])
    again = columns - period[:, None]
    is_target = (again >= 0) & ~lengths_beyond(lengths, len(columns))
    earlier = np.maximum(again, 0)
    written = np.where(is_target, np.take_along_axis(prompts, earlier, axis=1), prompts)
    return Problems.of(written, np.where(is_target, np.take_along_axis(prompts, earlier + 1, axis=1), PAD))
