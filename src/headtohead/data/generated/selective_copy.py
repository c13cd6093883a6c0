"""Selective copying (Jing et al. 2019, https://arxiv.org/abs/1706.02761; Gu and Dao 2023,
https://arxiv.org/abs/2312.00752): a few symbols at random places among blanks are written again without the blanks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from headtohead.data.contracts import DataError
from headtohead.data.dealing import check_sizes
from headtohead.data.generated.drawing import DrawnSource
from headtohead.data.generated.problems import FIRST_ID, ProblemForm, Problems, Span, beyond, check_lengths
from headtohead.data.generated.rewriting import check_symbols
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Length, Rows, Seed, Vocabulary, Width


class SelectiveCopy(DrawnSource):
    """A prompt has `length` places, and symbols in `num_copied` of them. With form=slots, as in the second paper, the
    answer is written into blanks; with form=language each written symbol is read."""

    name: ClassVar[str] = "selective_copy"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "slots", "pairs")

    def __init__(
        self,
        *,
        num_train: Rows = 20_000,
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        form: Literal["language", "slots", "pairs"] = "slots",
        length: Length = 64,
        min_length: Length | None = None,
        test_length: Length | None = None,
        num_copied: Width = 8,
        num_symbols: Vocabulary = 16,
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
            sizes=check_sizes(num_train, num_validation, num_test),
            spans=spans,
            form=form,
            symbols=[*(str(number) for number in range(num_symbols)), "."],
            batch_size=batch_size,
            seed=seed,
        )
        self.num_copied, self.num_symbols = num_copied, num_symbols

    def drawn_parameters(self) -> Mapping[str, Any]:
        return {"num_copied": self.num_copied, "num_symbols": self.num_symbols}

    def draw(self, size: int, span: Span, generator: np.random.Generator) -> Problems:
        """The places with the smallest of random numbers hold the symbols: all sets of places are alike."""
        lengths = span.draw(size, generator)
        past = beyond(lengths, span.longest)
        answers = generator.integers(FIRST_ID, FIRST_ID + self.num_symbols, size=(size, self.num_copied))
        order = generator.random((size, span.longest), dtype=np.float32)
        order[past] = 2.0
        places = np.sort(np.argpartition(order, self.num_copied - 1, axis=1)[:, : self.num_copied], axis=1)
        prompts = np.where(past, PAD, FIRST_ID + self.num_symbols)
        np.put_along_axis(prompts, places, answers, axis=1)
        return Problems.of(prompts, answers)
