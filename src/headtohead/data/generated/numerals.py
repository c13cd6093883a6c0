"""Whole numbers in English words: 1,205 is "one thousand two hundred and five"."""

from __future__ import annotations

import numpy as np

SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ("", " thousand", " million", " billion")
LARGEST = 1000 ** len(SCALES) - 1


def in_words(numbers: np.ndarray) -> np.ndarray:
    """An array of texts; three digits at a time, from the left, with "and" before what is below a hundred."""
    groups = [numbers // 1000**place % 1000 for place in range(len(SCALES))]
    texts = np.full(len(numbers), "", dtype=object)
    for place in reversed(range(len(SCALES))):
        group = groups[place]
        begun = texts != ""
        words = _BELOW_THOUSAND[group]
        joined_by_and = begun & (place == 0) & (group < 100)
        joint = np.where(joined_by_and, " and ", np.where(begun, " ", ""))
        texts = np.where(group > 0, texts + joint + words + SCALES[place], texts)
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
