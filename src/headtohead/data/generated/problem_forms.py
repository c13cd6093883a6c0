"""Problems with exact answers, a prompt and its answer, and the forms in which they are presented to models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headtohead.data.batches.row_order import mix
from headtohead.data.cache.arrow_columns import Ragged, Table, smallest_integer
from headtohead.data.data_source import DataError, DataKind, DataSpec, SplitName
from headtohead.data.tokenizers import PAD, SPECIAL_TOKENS, framed

FIRST_ID = len(SPECIAL_TOKENS)
"""The first id of the symbols of prompts and answers."""
ProblemForm = Literal["language", "slots", "pairs", "labelled"]
KIND_OF_FORM: dict[ProblemForm, DataKind] = {
    "language": "language",
    "slots": "language",
    "pairs": "pairs_of_text",
    "labelled": "labelled_text",
}
"""The kind of data that rows of each form are to a task."""
Layout = Literal["after", "along"]
"""The position of the answer in a language row: after the prompt, or one answer beside each token of the prompt."""


@dataclass(frozen=True)
class Problems:
    """One problem a line, padded on the right with PAD. Where answers are aligned with the prompt, PAD is not a
    target."""

    prompts: np.ndarray
    answers: np.ndarray
    labels: np.ndarray
    """The answer as a class, where it is one."""

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, rows: np.ndarray | slice) -> Problems:
        return Problems(self.prompts[rows], self.answers[rows], self.labels[rows])

    @classmethod
    def of(cls, prompts: np.ndarray, answers: np.ndarray, labels: np.ndarray | None = None) -> Problems:
        classes = np.zeros(len(prompts), dtype=np.int64) if labels is None else labels
        return cls(prompts.astype(np.int32), answers.astype(np.int32), classes)

    @classmethod
    def together(cls, parts: list[Problems]) -> Problems:
        prompts, answers = [part.prompts for part in parts], [part.answers for part in parts]
        return cls(np.concatenate(prompts), np.concatenate(answers), np.concatenate([part.labels for part in parts]))


@dataclass(frozen=True)
class AnswerSpan:
    """Lengths from the shortest to the longest, a multiple of `step`."""

    shortest: int
    longest: int
    step: int = 1

    def times(self, multiple: int) -> AnswerSpan:
        return AnswerSpan(multiple * self.shortest, multiple * self.longest, self.step)

    def draw(self, size: int, generator: np.random.Generator) -> np.ndarray:
        """Draw lengths, every one equally likely."""
        return self.step * generator.integers(self.shortest // self.step, self.longest // self.step + 1, size=size)


def check_lengths(
    min_length: int | None, length: int, test_length: int | None, *, fewest: int, step: int = 1
) -> dict[SplitName, AnswerSpan]:
    """Return lengths per split: all of `length` unless `min_length` is less; test rows may have another length."""
    shortest = length if min_length is None else min_length
    for name, value in (("length", length), ("min_length", shortest), ("test_length", test_length or length)):
        if value < fewest or value % step:
            even = " and even" if step == 2 else ""
            raise DataError(f"data.{name}={value} must be at least {fewest}{even}.")
    if shortest > length:
        raise DataError(f"data.min_length={shortest} is more than data.length={length}, the longest: lower it.")
    usual = AnswerSpan(shortest, length, step)
    return {
        "train": usual,
        "validation": usual,
        "test": AnswerSpan(test_length, test_length, step) if test_length else usual,
    }


def lengths_beyond(lengths: np.ndarray, width: int) -> np.ndarray:
    """Return a mask of the columns past each line's length."""
    return np.arange(width) >= lengths[:, None]


def padded_symbols(lengths: np.ndarray, width: int, num_symbols: int, generator: np.random.Generator) -> np.ndarray:
    """Return lines of random symbols."""
    symbols = generator.integers(FIRST_ID, FIRST_ID + num_symbols, size=(len(lengths), width))
    return np.where(lengths_beyond(lengths, width), PAD, symbols)


def keys_of(prompts: np.ndarray, seed: int) -> np.ndarray:
    """Return a hash of each prompt, independent of padding. Multipliers are odd, so that collisions are as rare as
    chance would have it."""
    multipliers = np.random.default_rng([seed, 1]).integers(0, 2**64, size=prompts.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        return mix(prompts.astype(np.uint64) @ (multipliers | np.uint64(1)))


def rows_of(matrix: np.ndarray, is_real: np.ndarray) -> Ragged:
    return Ragged.of_lengths(matrix[is_real], is_real.sum(1))


def joined(first: Ragged, second: Ragged) -> Ragged:
    """Concatenate two columns row by row."""
    both = Ragged.of_lengths(first.values[:0], first.lengths + second.lengths)
    values = np.empty(both.offsets[-1], dtype=first.values.dtype)
    for part, starts in ((first, both.offsets[:-1]), (second, both.offsets[:-1] + first.lengths)):
        values[np.arange(len(part.values)) + np.repeat(starts - part.offsets[:-1], part.lengths)] = part.values
    return Ragged(values, both.offsets)


def rendered(problems: Problems, form: ProblemForm, layout: Layout, last_id: int) -> Table:
    """Return the columns of a split in this form. In language rows, a target of PAD is not requested. The last id is
    the separator's, where there is one."""
    is_real = problems.prompts != PAD
    prompts = rows_of(problems.prompts.astype(smallest_integer(last_id)), is_real)
    if form == "labelled":
        return {
            "tokens": framed(prompts),
            "label": problems.labels.astype(smallest_integer(int(problems.labels.max()))),
        }
    if layout == "along":
        return {"tokens": prompts, "targets": rows_of(problems.answers, is_real)}
    answers = rows_of(problems.answers.astype(smallest_integer(last_id)), problems.answers != PAD)
    if form == "pairs":
        return {"source": prompts, "target": framed(answers)}
    read = _FED[form](answers, last_id)
    silence = Ragged(np.full_like(prompts.values, PAD), prompts.offsets)
    return {"tokens": joined(prompts, read), "targets": joined(silence, answers)}


def _after_separator(answers: Ragged, separator: int) -> Ragged:
    """Return the decoder's input: the separator, then the answer written so far."""
    read = np.roll(answers.values, 1)
    read[answers.offsets[:-1]] = separator
    return Ragged(read, answers.offsets)


def _slots(answers: Ragged, separator: int) -> Ragged:
    """Return a blank for each token of an answer that is written without being read."""
    return Ragged(np.full_like(answers.values, separator), answers.offsets)


_FED: dict[ProblemForm, Callable[[Ragged, int], Ragged]] = {"language": _after_separator, "slots": _slots}


def spec_of_answers(rows: np.ndarray, answers: np.ndarray, *, max_length: int, num_scored: int) -> DataSpec:
    """Describe language rows with these answers in the train split, row after row; `rows` holds the row of each."""
    is_last = np.append(rows[1:] != rows[:-1], True)
    return DataSpec(
        "language",
        max_length=max_length,
        num_scored=num_scored,
        answer_shares=shares_of(answers),
        last_answer_shares=shares_of(answers[is_last]),
    )


def shares_of(answers: np.ndarray) -> tuple[float, ...]:
    """Return the share of each distinct answer, the most frequent first."""
    counts = np.sort(np.bincount(answers))[::-1]
    return tuple((counts[counts > 0] / len(answers)).tolist())
