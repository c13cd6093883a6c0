"""Numerals and words, against the rules written out slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.generated.number_words import LARGEST, NumberWords, allocate, digit_groups, in_words

ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEENS = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def slowly(number: int) -> str:
    """Spell a number digit by digit from the right, as one learns it at school."""
    if number < 10:
        return ONES[number]
    if number < 20:
        return TEENS[number - 10]
    if number < 100:
        return TENS[number // 10 - 2] + ("" if number % 10 == 0 else "-" + ONES[number % 10])
    for size, word in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = number % size
            head = f"{slowly(number // size)} {word}"
            if rest == 0:
                return head
            return f"{head} and {slowly(rest)}" if rest < 100 else f"{head} {slowly(rest)}"
    raise AssertionError(number)


def test_words_follow_the_rules_for_all_small_and_many_large_numbers() -> None:
    generator = np.random.default_rng(0)
    edges = [10**power + step for power in range(3, 12) for step in (-1, 0, 1, 10, 100)]
    large = [int(number) for width in range(4, 13) for number in generator.integers(0, 10**width, 300)]
    numbers = [*range(12_000), *edges, *large, LARGEST]
    assert in_words(np.array(numbers)).tolist() == [slowly(number) for number in numbers]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (40, "forty"),
        (115, "one hundred and fifteen"),
        (1205, "one thousand two hundred and five"),
        (1_000_001, "one million and one"),
        (2_000_100, "two million one hundred"),
        (300_020_000, "three hundred million twenty thousand"),
    ],
)
def test_known_numbers(number: int, words: str) -> None:
    assert in_words(np.array([number])).tolist() == [words]


def decoded(source: NumberWords, name: SplitName) -> list[tuple[str, str]]:
    """Return pairs as a model meets them: the source, and the target up to its end."""
    split = source.split(name)
    batch = split.batch(np.arange(len(split)))
    assert batch.tokens is not None and batch.targets is not None and batch.decoder_tokens is not None
    pairs = []
    for tokens, targets, provided in zip(batch.tokens, batch.targets, batch.decoder_tokens, strict=True):
        written = targets[targets != IGNORED].tolist()
        assert written[-1] == 2 and provided.tolist()[: len(written)] == [1, *written[:-1]]
        pairs.append((source.decode(tokens.tolist()), source.decode(written)))
    return pairs


FEW = {"num_train": 300, "num_validation": 40, "num_test": 50}


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
@pytest.mark.parametrize("direction", ["to_words", "to_digits", "both"])
def test_targets_are_right_answers(direction: Any, tokenizer: Any) -> None:
    source = from_fields(NumberWords, **FEW, direction=direction, tokenizer=tokenizer)
    for name in SPLIT_NAMES:
        for provided, written in decoded(source, name):
            number, words = (provided, written) if provided.isdigit() else (written, provided)
            assert slowly(int(number)) == words


def test_directions_are_as_requested() -> None:
    shares = [
        np.mean(
            [
                provided.isdigit()
                for provided, _ in decoded(from_fields(NumberWords, **FEW, direction=direction), "train")
            ]
        )
        for direction in ("to_words", "to_digits", "both")
    ]
    assert shares[:2] == [1.0, 0.0] and 0.4 < shares[2] < 0.6


@pytest.mark.parametrize("max_number", [450, 999, 999_999, LARGEST])
def test_no_number_comes_twice(max_number: int) -> None:
    source = from_fields(NumberWords, **FEW, max_number=max_number)
    numbers = [int(provided) for name in SPLIT_NAMES for provided, _ in decoded(source, name)]
    assert len(set(numbers)) == len(numbers) == 390 and max(numbers) <= max_number


def test_all_numbers_can_be_drawn() -> None:
    source = from_fields(NumberWords, num_train=80, num_validation=10, num_test=10, max_number=99)
    assert sorted(int(provided) for name in SPLIT_NAMES for provided, _ in decoded(source, name)) == list(range(100))


@pytest.mark.slow
def test_every_number_of_digits_is_as_common_as_it_can_be() -> None:
    source = from_fields(NumberWords, num_train=4_000, num_validation=50, num_test=50)
    widths = np.bincount([len(provided) for provided, _ in decoded(source, "train")])[1:]
    assert widths[0] == 9 and widths[1] == 81
    assert widths[3:].max() - widths[3:].min() <= 1
    assert set(range(10)) - {int(provided) for provided, _ in decoded(source, "train")} != set(range(10))


def test_shares_use_all_that_is_requested_and_no_more_than_there_is() -> None:
    available = np.array([10, 90, 900, 9000])
    for size in (0, 3, 100, 395, 2000, 10_000):
        shares = allocate(size, available)
        assert shares.sum() == size and (shares <= available).all()
    assert allocate(400, available).tolist() == [10, 90, 150, 150]


def test_groups_of_digits_cover_all_numbers() -> None:
    starts, counts = digit_groups(12_345)
    assert starts.tolist() == [0, 10, 100, 1000, 10_000] and counts.tolist() == [10, 90, 900, 9000, 2346]


def test_batches_of_like_length_can_be_switched_off() -> None:
    lengths = from_fields(NumberWords, **FEW).split("train").lengths()
    assert lengths is not None and len(lengths) == 300
    assert from_fields(NumberWords, **FEW, bucket_by_length=False).split("train").lengths() is None


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"direction": "up"}, "data.direction=up is unknown: choose one of to_words, to_digits, both"),
        ({"max_number": 10**12}, "data.max_number=1000000000000 must be from 0 to 999999999999"),
        ({"max_number": 99}, "data.max_number=99 gives 100 numbers, and the splits ask for 21000"),
        ({"num_validation": 0}, "data.num_validation=0 leaves the validation split empty"),
    ],
)
def test_impossible_pairs_are_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_fields(NumberWords, **chosen)
