"""The word problem of a finite group (Liu et al. 2023, https://arxiv.org/abs/2210.10749; Merrill et al. 2024,
https://arxiv.org/abs/2404.08819): the product of a sequence of its elements. Parity is that of Z_2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from headtohead.data.dealing import check_sizes
from headtohead.data.generated.drawing import DrawnSource
from headtohead.data.generated.groups import group_named
from headtohead.data.generated.problems import FIRST_ID, Layout, ProblemForm, Problems, Span, beyond, check_lengths
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Length, Rows, Seed


class WordProblem(DrawnSource):
    """Elements are drawn alike. With form=language every place asks for the product so far; with form=labelled that of
    the whole row is the label."""

    name: ClassVar[str] = "word_problem"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "labelled")
    layout: ClassVar[Layout] = "along"

    def __init__(
        self,
        *,
        num_train: Rows = 20_000,
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        form: Literal["language", "labelled"] = "language",
        group: str = "Z_2",
        length: Length = 16,
        min_length: Length | None = None,
        test_length: Length | None = None,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        names = group_named(group).names
        super().__init__(
            sizes=check_sizes(num_train, num_validation, num_test),
            spans=check_lengths(min_length, length, test_length, fewest=1),
            form=form,
            symbols=names,
            class_names=names,
            batch_size=batch_size,
            seed=seed,
        )
        self.group = group

    def drawn_parameters(self) -> Mapping[str, Any]:
        return {"group": self.group}

    def draw(self, size: int, span: Span, generator: np.random.Generator) -> Problems:
        lengths = span.draw(size, generator)
        group, past = group_named(self.group), beyond(lengths, span.longest)
        elements = generator.integers(len(group), size=past.shape)
        products = group.running_products(elements)
        whole = products[np.arange(size), lengths - 1]
        return Problems.of(np.where(past, PAD, FIRST_ID + elements), np.where(past, PAD, FIRST_ID + products), whole)
