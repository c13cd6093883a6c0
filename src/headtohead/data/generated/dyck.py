"""Words of balanced brackets, Dyck-k with bounded depth (Hewitt et al. 2020, https://arxiv.org/abs/2010.07515; Yao et
al. 2021, https://arxiv.org/abs/2105.11115): a stack determines which bracket closes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

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
)
from headtohead.data.generated.procedural_source import DrawnSource
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Depth, Range, Seed, Vocabulary

_BRACKETS = ("()", "[]", "{}", "<>")


class Dyck(DrawnSource):
    """Every word of a length is equally likely. With form=language each closing bracket is to be predicted from the
    prefix. With form=labelled half of the words had two brackets exchanged and are unbalanced, though they have as many
    of each bracket as a balanced word."""

    name: ClassVar[str] = "dyck"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "labelled")
    layout: ClassVar[Layout] = "along"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        form: Literal["language", "labelled"] = "language",
        num_types: Vocabulary = 2,
        max_depth: Depth = 8,
        length: Annotated[int, Range(2, 16_777_216)] = 32,
        min_length: Annotated[int, Range(2, 16_777_216)] | None = None,
        test_length: Annotated[int, Range(2, 16_777_216)] | None = None,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        for field, value in (("num_types", num_types), ("max_depth", max_depth)):
            if value < 1:
                raise DataError(f"data.{field}={value} must be at least 1.")
        super().__init__(
            sizes=splits.by_name(),
            spans=check_lengths(min_length, length, test_length, fewest=2, step=2),
            form=form,
            symbols=bracket_names(num_types),
            class_names=("unbalanced", "balanced"),
            batch_size=batch_size,
            seed=seed,
        )
        self.num_types, self.max_depth = num_types, max_depth

    def drawn_parameters(self) -> Mapping[str, object]:
        return {"num_types": self.num_types, "max_depth": self.max_depth}

    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        lengths = span.draw(size, generator)
        words = self._balanced(lengths, span.longest, generator)
        if self.form == "language":
            closing = np.roll(words, -1, axis=1) >= FIRST_ID + self.num_types
            closing[:, -1] = False
            answers = np.where(closing, np.roll(words, -1, axis=1), PAD)
            read = np.where(lengths_beyond(lengths - 1, span.longest), PAD, words)
            return Problems.of(read[:, :-1], answers[:, :-1])
        labels = generator.integers(2, size=size)
        spoilt = np.flatnonzero(labels == 0)
        words[spoilt] = self._unbalanced(words[spoilt], generator)
        return Problems.of(words, np.full((size, 1), PAD), labels)

    def _balanced(self, lengths: np.ndarray, width: int, generator: np.random.Generator) -> np.ndarray:
        """Write words bracket by bracket, all words together, each with a stack of the open types."""
        chances = opening_chances(width, self.max_depth)
        rows, depth = np.arange(len(lengths)), np.zeros(len(lengths), dtype=np.int64)
        stacks = np.zeros((len(lengths), self.max_depth + 1), dtype=np.int64)
        words = np.full((len(lengths), width), PAD)
        for column in range(width):
            left = lengths - column
            opens = generator.random(len(rows)) < chances[np.maximum(left, 0), depth]
            stacks[rows, depth] = np.where(
                opens, generator.integers(self.num_types, size=len(rows)), stacks[rows, depth]
            )
            closes = ~opens & (left > 0)
            depth -= closes
            bracket = stacks[rows, depth] + np.where(opens, 0, self.num_types)
            words[:, column] = np.where(opens | closes, FIRST_ID + bracket, PAD)
            depth += opens
        return words

    def _unbalanced(self, words: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Break words: in half of them two closing brackets of different types are exchanged, where there are such; in
        the rest an opening one is moved behind a closing one that needs it."""
        rows = np.arange(len(words))
        closing = words >= FIRST_ID + self.num_types
        second = drawn_position(closing, generator)
        others = closing & (words != words[rows, second][:, None])
        mistyped = others.any(1) & (generator.random(len(words)) < 0.5)
        depth = np.cumsum(np.where(closing, -1, words != PAD), axis=1)
        columns = np.arange(words.shape[1])
        shallow = (depth <= 1) & (columns < second[:, None])
        last_shallow = np.where(shallow, columns, 0).max(1)
        needed = ~closing & (columns <= last_shallow[:, None])
        first = drawn_position(np.where(mistyped[:, None], others, needed), generator)
        exchanged = words.copy()
        exchanged[rows, first], exchanged[rows, second] = words[rows, second], words[rows, first]
        return exchanged


def bracket_names(num_types: int) -> list[str]:
    """Return the names of all opening brackets, then of all closing ones: signs as far as there are signs, then (4 and
    )4 and so on."""
    pairs = [_BRACKETS[kind] if kind < len(_BRACKETS) else "()" for kind in range(num_types)]
    numbers = [str(kind) if kind >= len(_BRACKETS) else "" for kind in range(num_types)]
    return [pair[side] + number for side in range(2) for pair, number in zip(pairs, numbers, strict=True)]


@lru_cache(maxsize=8)
def opening_chances(width: int, max_depth: int) -> np.ndarray:
    """Return, by the number of brackets left and the depth, the share of the remaining words that open a bracket
    now."""
    chances = np.zeros((width + 1, max_depth + 1))
    ways = np.zeros(max_depth + 2)
    ways[0] = 1.0
    for left in range(1, width + 1):
        opening, closing = ways[1:], np.append(0.0, ways[:-2])
        total = opening + closing
        chances[left] = np.divide(opening, total, out=np.zeros_like(total), where=total > 0)
        ways = np.append(total / total.max(), 0.0)
    return chances


def drawn_position(allowed: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return in each row one of the allowed positions, each equally likely."""
    rank = (generator.random(len(allowed)) * allowed.sum(1)).astype(np.int64)
    array: np.ndarray = np.argmax(np.cumsum(allowed, axis=1) > rank[:, None], axis=1)
    return array
