"""Problems with exact answers, a prompt and what is to be answered, and the forms in which models are asked them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headtohead.data.contracts import DataError, DataKind, SplitName
from headtohead.data.randomness import mix
from headtohead.data.storage import Ragged, Table, smallest_integer
from headtohead.data.tokenizers import PAD, SPECIAL_TOKENS, framed

FIRST_ID = len(SPECIAL_TOKENS)
"""Of what prompts and answers are made of."""
ProblemForm = Literal["language", "slots", "pairs", "labelled"]
KIND_OF_FORM: dict[ProblemForm, DataKind] = {
    "language": "language",
    "slots": "language",
    "pairs": "pairs_of_text",
    "labelled": "labelled_text",
}
"""What rows of each form are to a task."""
Layout = Literal["after", "along"]
"""Where the answer of a language row stands: after the prompt, or one answer beside each token of the prompt."""


@dataclass(frozen=True)
class Problems:
    """One problem a line, padded on the right with PAD. Where answers stand along the prompt, PAD asks nothing."""

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
class Span:
    """Lengths from the shortest to the longest, a multiple of `step`."""

    shortest: int
    longest: int
    step: int = 1

    def times(self, multiple: int) -> Span:
        return Span(multiple * self.shortest, multiple * self.longest, self.step)

    def draw(self, size: int, generator: np.random.Generator) -> np.ndarray:
        """Every length equally likely."""
        return self.step * generator.integers(self.shortest // self.step, self.longest // self.step + 1, size=size)


def check_lengths(
    min_length: int | None, length: int, test_length: int | None, *, fewest: int, step: int = 1
) -> dict[SplitName, Span]:
    """Lengths per split: all of `length` unless `min_length` is less; test rows may be all of another length."""
    shortest = length if min_length is None else min_length
    for name, value in (("length", length), ("min_length", shortest), ("test_length", test_length or length)):
        if value < fewest or value % step:
            even = " and even" if step == 2 else ""
            raise DataError(f"data.{name}={value} must be at least {fewest}{even}.")
    if shortest > length:
        raise DataError(f"data.min_length={shortest} is more than data.length={length}, the longest: lower it.")
    usual = Span(shortest, length, step)
    return {"train": usual, "validation": usual, "test": Span(test_length, test_length, step) if test_length else usual}


def beyond(lengths: np.ndarray, width: int) -> np.ndarray:
    """Where lines of this width are past their lengths."""
    return np.arange(width) >= lengths[:, None]


def padded_symbols(lengths: np.ndarray, width: int, num_symbols: int, generator: np.random.Generator) -> np.ndarray:
    """Lines of random symbols."""
    symbols = generator.integers(FIRST_ID, FIRST_ID + num_symbols, size=(len(lengths), width))
    return np.where(beyond(lengths, width), PAD, symbols)


def keys_of(prompts: np.ndarray, seed: int) -> np.ndarray:
    """A number for each prompt: the same for the same prompt, whatever the padding. Multipliers are odd, so that two
    prompts share a number as rarely as chance would have it."""
    multipliers = np.random.default_rng([seed, 1]).integers(0, 2**64, size=prompts.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        return mix(prompts.astype(np.uint64) @ (multipliers | np.uint64(1)))


def rows_of(matrix: np.ndarray, kept: np.ndarray) -> Ragged:
    return Ragged.of_lengths(matrix[kept], kept.sum(1))


def joined(first: Ragged, second: Ragged) -> Ragged:
    """Row by row, one after the other."""
    whole = Ragged.of_lengths(first.values[:0], first.lengths + second.lengths)
    values = np.empty(whole.offsets[-1], dtype=first.values.dtype)
    for part, starts in ((first, whole.offsets[:-1]), (second, whole.offsets[:-1] + first.lengths)):
        values[np.arange(len(part.values)) + np.repeat(starts - part.offsets[:-1], part.lengths)] = part.values
    return Ragged(values, whole.offsets)


def rendered(problems: Problems, form: ProblemForm, layout: Layout, last_id: int) -> Table:
    """The columns of a split in this form. In language rows, a target of PAD is one that nobody asks for. The last id
    is the separator's, where there is one."""
    given = problems.prompts != PAD
    prompts = rows_of(problems.prompts.astype(smallest_integer(last_id)), given)
    if form == "labelled":
        return {
            "tokens": framed(prompts),
            "label": problems.labels.astype(smallest_integer(int(problems.labels.max()))),
        }
    if layout == "along":
        return {"tokens": prompts, "targets": rows_of(problems.answers, given)}
    answers = rows_of(problems.answers.astype(smallest_integer(last_id)), problems.answers != PAD)
    if form == "pairs":
        return {"source": prompts, "target": framed(answers)}
    read = _FED[form](answers, last_id)
    silence = Ragged(np.full_like(prompts.values, PAD), prompts.offsets)
    return {"tokens": joined(prompts, read), "targets": joined(silence, answers)}


def _after_separator(answers: Ragged, separator: int) -> Ragged:
    """What is read while the answer is written: the separator, then what has been written."""
    read = np.roll(answers.values, 1)
    read[answers.offsets[:-1]] = separator
    return Ragged(read, answers.offsets)


def _slots(answers: Ragged, separator: int) -> Ragged:
    """A blank for each token of the answer, which is written without being read."""
    return Ragged(np.full_like(answers.values, separator), answers.offsets)


_FED: dict[ProblemForm, Callable[[Ragged, int], Ragged]] = {"language": _after_separator, "slots": _slots}
