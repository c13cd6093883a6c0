"""Translation between numerals and English words, "1205" and "one thousand two hundred and five": exact answers for
sequence-to-sequence models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import numpy as np

from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.row_formats.text_pairs import Pair, PairSource
from headtohead.data.row_formats.text_source import BucketedRows
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.ranges import Seed, Vocabulary

SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ("", " thousand", " million", " billion")
LARGEST = 1000 ** len(SCALES) - 1


def in_words(numbers: np.ndarray) -> np.ndarray:
    """Return the numbers in words, three digits at a time, from the left, with "and" before what is below a hundred."""
    groups = [numbers // 1000**index % 1000 for index in range(len(SCALES))]
    texts = np.full(len(numbers), "", dtype=object)
    for index in reversed(range(len(SCALES))):
        group = groups[index]
        begun = texts != ""
        words = _BELOW_THOUSAND[group]
        joined_by_and = begun & (index == 0) & (group < 100)
        joint = np.where(joined_by_and, " and ", np.where(begun, " ", ""))
        texts = np.where(group > 0, texts + joint + words + SCALES[index], texts)
    return np.where(numbers == 0, SMALL[0], texts)


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return f"{SMALL[hundreds]} hundred{' and ' + _below_thousand(rest) if rest else ''}"
    if number < len(SMALL):
        return SMALL[number]
    tens, ones = divmod(number, 10)
    return TENS[tens] + (f"-{SMALL[ones]}" if ones else "")


_BELOW_THOUSAND = np.array([_below_thousand(number) for number in range(1000)], dtype=object)


_HELD_SHARE = 0.1
Direction = Literal["to_words", "to_digits", "both"]


class NumberWords(PairSource):
    """Every number of digits is equally likely, as far as there are enough numbers; no number is in two splits, nor
    twice in one. With direction=both, each direction has half of the pairs."""

    name: ClassVar[str] = "number_words"
    draws_its_rows = True

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(num_validation=500, num_test=500),
        max_number: Vocabulary = 999_999,
        direction: Direction = "to_words",
        rows: BucketedRows = BucketedRows(batch_size=64, tokenizer="char"),
        seed: Seed = 0,
    ) -> None:
        super().__init__(rows)
        if direction not in get_args(Direction):
            raise DataError(f"data.direction={direction} is unknown: choose one of {', '.join(get_args(Direction))}.")
        if not 0 <= max_number <= LARGEST:
            raise DataError(f"data.max_number={max_number} must be from 0 to {LARGEST}.")
        self.sizes = splits.by_name()
        self.max_number, self.direction, self.seed = max_number, direction, seed
        if sum(self.sizes.values()) > max_number + 1:
            raise DataError(
                f"data.max_number={max_number} gives {max_number + 1} numbers, and the splits ask for "
                f"{sum(self.sizes.values())}: raise it, or lower data.num_train={splits.num_train}."
            )

    def longer(self, multiple: int) -> NumberWords:
        """Refuse: a model that has learned numbers up to a thousand has never read "thousand"."""
        raise DataError(
            f"numbers of {multiple} times as many digits need words that nobody learns from numbers up to "
            f"{self.max_number:,}"
        )

    def sample_parameters(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in ("sizes", "max_number", "direction", "seed")}

    def samples(self) -> Mapping[SplitName, list[Pair]]:
        numbers = self._numbers()
        generator = np.random.default_rng([self.seed, 2])
        return {name: self._written(numbers[name], generator) for name in reversed(SPLIT_NAMES)}

    def _numbers(self) -> dict[SplitName, np.ndarray]:
        """Draw validation and test first, at most a tenth of each number of digits, so that they neither depend on the
        size of the train split nor use up the short numbers."""
        starts, counts = digit_groups(self.max_number)
        num_held = self.sizes["validation"] + self.sizes["test"]
        share = max(_HELD_SHARE, num_held / int(counts.sum()))
        taken = allocate(num_held, np.ceil(counts * share).astype(np.int64))
        held = _drawn(starts, counts, taken, np.random.default_rng([self.seed, 0]))
        train_counts = allocate(self.sizes["train"], counts - taken)
        generator = np.random.default_rng([self.seed, 1])
        train = _drawn(starts, counts, train_counts, generator, without=held)
        return {"train": train, "validation": held[self.sizes["test"] :], "test": held[: self.sizes["test"]]}

    def _written(self, numbers: np.ndarray, generator: np.random.Generator) -> list[Pair]:
        to_digits = generator.random(len(numbers)) < 0.5
        if self.direction != "both":
            to_digits[:] = self.direction == "to_digits"
        digits, words = numbers.astype(str).astype(object), in_words(numbers)
        sources, targets = np.where(to_digits, words, digits), np.where(to_digits, digits, words)
        return list(zip(sources.tolist(), targets.tolist(), strict=True))


def digit_groups(max_number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest number of each number of digits, and how many there are up to `max_number`."""
    starts = np.array([0, *(10**index for index in range(1, len(str(max_number))))], dtype=np.int64)
    return starts, np.diff(np.append(starts, max_number + 1))


def allocate(size: int, available: np.ndarray) -> np.ndarray:
    """Divide `size` into equal shares, none above what is available; what the small ones lack goes to the others."""
    shares = np.zeros_like(available)
    for done, index in enumerate(np.argsort(available, kind="stable")):
        share = (size - int(shares.sum())) // (len(available) - done)
        shares[index] = min(share, available[index])
    return shares


def _drawn(
    starts: np.ndarray,
    counts: np.ndarray,
    numbers: np.ndarray,
    generator: np.random.Generator,
    without: np.ndarray | None = None,
) -> np.ndarray:
    """Draw as many different numbers of each group as requested, shuffled, none of those of `without`."""
    excluded = np.zeros(0, dtype=np.int64) if without is None else without
    chosen = []
    for start, count, number in zip(starts, counts, numbers, strict=True):
        num_excluded = int(((excluded >= start) & (excluded < start + count)).sum())
        drawn = start + generator.choice(count, int(number) + num_excluded, replace=False)
        chosen.append(drawn[~np.isin(drawn, excluded)][:number])
    return generator.permutation(np.concatenate(chosen))
