"""ListOps (Nangia and Bowman 2018, https://arxiv.org/abs/1804.06028; Long Range Arena, Tay et al. 2020,
https://arxiv.org/abs/2011.04006): the value of nested operations on digits, such as [MAX 2 9 [MIN 4 7 ] 0 ]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np

from headtohead.data.data_source import DataError, SplitName
from headtohead.data.generated.problem_forms import FIRST_ID, AnswerSpan, ProblemForm, Problems, check_lengths
from headtohead.data.generated.procedural_source import DrawnSource
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Depth, Range, Seed

NUM_DIGITS = 10
OPERATORS = ("MAX", "MIN", "MED", "SM")
"""Largest, smallest, median rounded down, and sum modulo 10."""
_NESTED_SHARE = 0.25
"""The share of arguments that are expressions themselves, as published."""
_FEWEST_TOKENS = 4
_NUM_TRIES = 50
_SAMPLE = 10_000
_RAREST = 0.002
"""Share of the expressions drawn from which on it is worth while to look for them."""


class ListOps(DrawnSource):
    """Operators take 2 to `max_args` arguments; `length` counts tokens, operators and closing brackets included.
    With `test_length`, test expressions are longer than any for training, up to that length."""

    name: ClassVar[str] = "listops"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("labelled", "language")
    separator: ClassVar[str] = "="

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        form: Literal["labelled", "language"] = "labelled",
        length: Annotated[int, Range(4, 16_777_216)] = 48,
        min_length: Annotated[int, Range(4, 16_777_216)] = 8,
        test_length: Annotated[int, Range(4, 16_777_216)] | None = None,
        max_depth: Depth = 4,
        max_args: Annotated[int, Range(2, 1_000_000)] = 5,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        for field, value, fewest in (("max_depth", max_depth, 1), ("max_args", max_args, 2)):
            if value < fewest:
                raise DataError(f"data.{field}={value} must be at least {fewest}.")
        spans = _spans(min_length, length, test_length)
        longest = longest_expression(max_depth, max_args)
        for field, span in (("min_length", spans["train"]), ("test_length", spans["test"])):
            if span.shortest > longest:
                raise DataError(
                    f"data.{field} asks for expressions of {span.shortest} tokens or more, and with data.max_depth="
                    f"{max_depth} and data.max_args={max_args} the longest has {longest}: raise these, or lower it."
                )
        digits = [str(digit) for digit in range(NUM_DIGITS)]
        super().__init__(
            sizes=splits.by_name(),
            spans=spans,
            form=form,
            symbols=[*digits, *(f"[{name}" for name in OPERATORS), "]"],
            class_names=digits,
            batch_size=batch_size,
            seed=seed,
        )
        self.max_depth, self.max_args = max_depth, max_args

    def drawn_parameters(self) -> Mapping[str, object]:
        return {"max_depth": self.max_depth, "max_args": self.max_args}

    def longer_span(self, multiple: int) -> AnswerSpan:
        """Return lengths near the maximum: most expressions are short, so that those up to a length are hardly
        longer."""
        length = self.spans["train"].longest
        span = AnswerSpan((multiple - 1) * length + 1, multiple * length)
        sample = ExpressionBuilder(
            _SAMPLE, span.longest, self.max_depth, self.max_args, np.random.default_rng(self.seed)
        )
        sample.finish()
        share = float(((sample.words != PAD).sum(1) >= span.shortest).mean())
        if share < _RAREST:
            raise DataError(
                f"with data.max_depth={self.max_depth} and data.max_args={self.max_args} hardly any expression has "
                f"{span.shortest} tokens or more: raise these"
            )
        return span

    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        """Draw expressions, and draw again those of the wrong length."""
        parts: list[Problems] = []
        for _ in range(_NUM_TRIES):
            growing = ExpressionBuilder(size, span.longest, self.max_depth, self.max_args, generator)
            growing.finish()
            lengths = (growing.words != PAD).sum(1)
            fits = np.flatnonzero((lengths >= span.shortest) & (lengths <= span.longest))
            values = growing.values[fits]
            parts.append(Problems.of(growing.words[fits], FIRST_ID + values[:, None], values))
            if sum(map(len, parts)) >= size:
                break
        together = Problems.together(parts)
        if not len(together):
            raise DataError(
                f"data=listops finds no expressions of {span.shortest} to {span.longest} tokens with "
                f"data.max_depth={self.max_depth} and data.max_args={self.max_args}: raise these, or lower "
                f"data.min_length."
            )
        return together[:size]


def _spans(min_length: int, length: int, test_length: int | None) -> dict[SplitName, AnswerSpan]:
    spans = check_lengths(min_length, length, test_length, fewest=_FEWEST_TOKENS)
    if test_length is None:
        return spans
    if test_length <= length:
        raise DataError(
            f"data.test_length={test_length} must be more than data.length={length}: test expressions are longer than "
            f"any for training, or, with null, as long."
        )
    return {**spans, "test": AnswerSpan(length + 1, test_length)}


def longest_expression(max_depth: int, max_args: int) -> int:
    """Return the tokens of the expression in which every argument is as long as it can be."""
    longest = 1
    for _ in range(max_depth):
        longest = max_args * longest + 2
    return longest


class ExpressionBuilder:
    """Many expressions written side by side, token by token, each with a stack of open operators. `need` is the least
    number of tokens that closes all of them: no expression opens what it has no room to close."""

    def __init__(self, size: int, width: int, max_depth: int, max_args: int, generator: np.random.Generator) -> None:
        self.words, self.values = np.full((size, width), PAD), np.zeros(size, dtype=np.int64)
        self.max_depth, self.max_args, self.generator = max_depth, max_args, generator
        self.depth, self.need = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
        self.operator = np.zeros((size, max_depth), dtype=np.int64)
        self.missing = np.zeros((size, max_depth), dtype=np.int64)
        """Arguments still to be written."""
        self.counts = np.zeros((size, max_depth, NUM_DIGITS), dtype=np.int64)
        """The frequency of each digit among the arguments written."""

    def finish(self) -> None:
        self._write(0, np.arange(len(self.words)))
        for column in range(1, self.words.shape[1]):
            open_ones = np.flatnonzero(self.depth)
            complete = self.missing[open_ones, self.depth[open_ones] - 1] == 0
            self._close(column, open_ones[complete])
            self._write(column, open_ones[~complete])

    def _write(self, column: int, rows: np.ndarray) -> None:
        """Write an argument: a digit, or an operator where there is room; the very first token is an operator."""
        nests = self.generator.random(len(rows)) < _NESTED_SHARE
        most = np.minimum(self.max_args, self.words.shape[1] - column - self.need[rows] - 1)
        depth = self.depth[rows]
        nests = ((nests & (depth < self.max_depth)) | (depth == 0)) & (most >= 2)
        inner = rows[depth > 0]
        self.missing[inner, self.depth[inner] - 1] -= 1
        self._put_digit(column, rows[~nests])
        self._open(column, rows[nests], most[nests])

    def _put_digit(self, column: int, rows: np.ndarray) -> None:
        digits = self.generator.integers(NUM_DIGITS, size=len(rows))
        self.words[rows, column] = FIRST_ID + digits
        self.counts[rows, self.depth[rows] - 1, digits] += 1
        self.need[rows] -= 1

    def _open(self, column: int, rows: np.ndarray, most: np.ndarray) -> None:
        operators, num_args = (
            self.generator.integers(len(OPERATORS), size=len(rows)),
            self.generator.integers(2, most + 1),
        )
        depth = self.depth[rows]
        self.words[rows, column] = FIRST_ID + NUM_DIGITS + operators
        self.operator[rows, depth], self.missing[rows, depth] = operators, num_args
        self.counts[rows, depth] = 0
        self.need[rows] += num_args
        self.depth[rows] += 1

    def _close(self, column: int, rows: np.ndarray) -> None:
        self.words[rows, column] = FIRST_ID + NUM_DIGITS + len(OPERATORS)
        self.depth[rows] -= 1
        self.need[rows] -= 1
        depth = self.depth[rows]
        values = evaluated(self.operator[rows, depth], self.counts[rows, depth])
        self.values[rows] = values
        inner = depth > 0
        self.counts[rows[inner], depth[inner] - 1, values[inner]] += 1


def evaluated(operators: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the result of each operator on its arguments, given as the number of times that each digit occurs."""
    digits, num_args, up_to = np.arange(NUM_DIGITS), counts.sum(1, keepdims=True), np.cumsum(counts, axis=1)
    largest = NUM_DIGITS - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)
    smallest = np.argmax(counts > 0, axis=1)
    middle = np.argmax(up_to >= (num_args + 1) // 2, axis=1) + np.argmax(up_to >= num_args // 2 + 1, axis=1)
    return np.choose(operators, [largest, smallest, middle // 2, counts @ digits % NUM_DIGITS])
