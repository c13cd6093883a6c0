"""Answers by brute force, and where they stand."""

from __future__ import annotations

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.generated.answered_rows import sample_without_replacement
from headtohead.data.generated.recall_problems import AssociativeRecall

SIZES = {"num_train": 300, "num_validation": 20, "num_test": 20}


def rows_of(source: AssociativeRecall, name: SplitName = "train") -> tuple[np.ndarray, np.ndarray]:
    split = source.split(name)
    batch = split.batch(np.arange(len(split)))
    assert batch.tokens is not None and batch.targets is not None
    return batch.tokens.numpy(), batch.targets.numpy()


@pytest.mark.parametrize(
    ("length", "num_pairs", "vocab_size"), [(32, 8, 41), (33, 1, 7), (64, 16, 64), (40, 3, 300), (16, 4, 13)]
)
@pytest.mark.parametrize("name", SPLIT_NAMES)
def test_every_key_is_queried_once_and_answered_with_its_value(
    length: int, num_pairs: int, vocab_size: int, name: SplitName
) -> None:
    source = from_fields(AssociativeRecall, **SIZES, length=length, num_pairs=num_pairs, vocab_size=vocab_size)
    for tokens, targets in zip(*rows_of(source, name), strict=True):
        values = {int(tokens[2 * pair]): int(tokens[2 * pair + 1]) for pair in range(num_pairs)}
        options = [index for index in range(length) if targets[index] != IGNORED]
        assert len(values) == num_pairs
        assert sorted(int(tokens[index]) for index in options) == sorted(values)
        assert all(targets[index] == values[int(tokens[index])] for index in options)
        assert min(options) >= 2 * num_pairs
        assert len(options) == source.spec().num_scored


def test_keys_and_values_are_two_halves_of_the_vocabulary() -> None:
    tokens, targets = rows_of(from_fields(AssociativeRecall, **SIZES, length=40, num_pairs=8, vocab_size=45))
    assert set(tokens[:, 0:16:2].ravel().tolist()) == set(range(5, 25))
    assert set(tokens[:, 1:16:2].ravel().tolist()) == set(targets[targets != IGNORED].tolist()) == set(range(25, 45))
    assert set(tokens[:, 16:].ravel().tolist()) == set(range(5, 45))


def test_values_alone_are_answers_and_share_these_alike() -> None:
    spec = from_fields(AssociativeRecall, **SIZES, length=40, num_pairs=8, vocab_size=45).spec()
    for shares, most in ((spec.answer_shares, 0.07), (spec.last_answer_shares, 0.12)):
        assert len(shares) == 20 and sum(shares) == pytest.approx(1)
        assert most > shares[0] >= shares[-1] > 0


def test_keys_are_queried_at_distances_of_the_power_law() -> None:
    source = from_fields(
        AssociativeRecall, **{**SIZES, "num_train": 20_000}, length=42, num_pairs=1, vocab_size=200, power=0.01
    )
    _, targets = rows_of(source)
    distances = ((targets != IGNORED).argmax(1) - 2) // 2
    expected = np.arange(1, 21) ** -0.99
    counted = np.bincount(distances, minlength=20) / len(distances)
    assert np.abs(counted - expected / expected.sum()).max() < 0.01


def test_power_of_one_asks_anywhere_alike() -> None:
    source = from_fields(
        AssociativeRecall, **{**SIZES, "num_train": 20_000}, length=42, num_pairs=1, vocab_size=200, power=1.0
    )
    distances = ((rows_of(source)[1] != IGNORED).argmax(1) - 2) // 2
    assert np.abs(np.bincount(distances, minlength=20) / len(distances) - 0.05).max() < 0.01


def test_weighted_draws_without_replacement_follow_one_another() -> None:
    weights = np.array([4.0, 2.0, 1.0, 1.0])
    drawn = sample_without_replacement(100_000, 2, weights, np.random.default_rng(0))
    first, second = np.bincount(drawn[:, 0]) / 1e5, np.bincount(drawn[drawn[:, 0] == 0, 1]) / (drawn[:, 0] == 0).sum()
    assert np.abs(first - weights / 8).max() < 0.01
    assert np.abs(second - np.array([0, 0.5, 0.25, 0.25])).max() < 0.01


def test_rows_differ_even_where_there_are_few() -> None:
    # One key, one value of two, the key again, then two of three tokens: 18 rows.
    source = from_fields(
        AssociativeRecall, num_train=10, num_validation=1, num_test=1, length=5, num_pairs=1, vocab_size=8
    )
    rows = np.concatenate([rows_of(source, name)[0] for name in SPLIT_NAMES])
    assert len(np.unique(rows, axis=0)) == 12


def test_more_rows_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match=r"too few different rows of data.length=4 .* data.num_train=100"):
        from_fields(
            AssociativeRecall, num_train=100, num_validation=1, num_test=1, length=4, num_pairs=1, vocab_size=8
        ).prepare()


def test_large_tables_are_made_in_pieces_of_the_same_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtohead.data.generated.answered_rows._NUMBERS_AT_ONCE", 1000)
    source = from_fields(AssociativeRecall, **SIZES, length=20, num_pairs=2, vocab_size=33, seed=9)
    tokens, targets = rows_of(source)
    assert tokens.shape == targets.shape == (300, 20) and ((targets != IGNORED).sum(1) == 2).all()


def test_tokens_are_shown_as_keys_and_values() -> None:
    source = from_fields(AssociativeRecall, **SIZES, length=16, num_pairs=2, vocab_size=45)
    assert source.decode([5, 25, 24, 44, 0, 3]) == "k0 v0 k19 v19 <pad> <mask>"
    (sample,) = source.describe(source.split("train").batch(np.array([0])))
    assert isinstance(sample["answers"], str)
    assert sample["answers"].count("k") == sample["answers"].count("v") == 2


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"num_pairs": 17}, "data.num_pairs=17 must be from 1 to 16 at data.length=64"),
        ({"num_pairs": 0}, "data.num_pairs=0 must be from 1 to 16"),
        ({"vocab_size": 20}, "data.vocab_size=20 has 7 keys, fewer than data.num_pairs=8: give at least 21"),
        ({"vocab_size": 3}, "data.vocab_size=3 has 0 keys"),
        ({"power": 0.0}, "data.power=0.0 must be above 0"),
        ({"num_test": 0}, "data.num_test=0 leaves the test split empty: give at least 1"),
        ({"batch_size": 0}, "data.batch_size=0 must be at least 1"),
    ],
)
def test_impossible_rows_are_refused(chosen: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_fields(AssociativeRecall, **chosen)  # type: ignore[arg-type]
