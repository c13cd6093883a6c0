"""The rows of a batch follow from the seed and the step."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import EpochOrder, device_share, evaluation_batches
from headtohead.data.data_source import DataError, Split


class Numbers(Split):
    """Rows that hold nothing but their number."""

    def __init__(self, num_rows: int, lengths: np.ndarray | None = None) -> None:
        self.num_rows, self.options = num_rows, lengths

    def __len__(self) -> int:
        return self.num_rows

    def batch(self, rows: np.ndarray) -> Batch:
        raise NotImplementedError("an order reads no row")

    def lengths(self) -> np.ndarray | None:
        return self.options


def test_every_batch_of_an_epoch_is_full_and_no_row_comes_twice() -> None:
    order = EpochOrder(Numbers(103), batch_size=10, seed=3)
    rows = np.concatenate([order.step(step)[1] for step in range(10)])
    assert order.steps_per_epoch == 10
    assert len(rows) == len(set(rows.tolist())) == 100 and rows.max() < 103


def test_rows_left_over_differ_from_epoch_to_epoch() -> None:
    order = EpochOrder(Numbers(103), batch_size=10, seed=3)
    left = [frozenset(range(103)) - set(order.epoch(epoch).ravel().tolist()) for epoch in range(6)]
    assert len(set(left)) > 1


def test_any_step_can_be_reached_at_once() -> None:
    walked, jumped = EpochOrder(Numbers(50), batch_size=8, seed=1), EpochOrder(Numbers(50), batch_size=8, seed=1)
    steps = [walked.step(step) for step in range(40)]
    for step in (33, 2, 39, 0):
        epoch, rows = jumped.step(step)
        assert epoch == steps[step][0] == step // 6
        assert np.array_equal(rows, steps[step][1])


def test_order_follows_from_seed_and_epoch() -> None:
    one, other = EpochOrder(Numbers(64), batch_size=8, seed=1), EpochOrder(Numbers(64), batch_size=8, seed=2)
    assert not np.array_equal(one.epoch(0), one.epoch(1))
    assert not np.array_equal(one.epoch(0), other.epoch(0))
    assert np.array_equal(pickle.loads(pickle.dumps(one)).epoch(1), one.epoch(1))


def test_split_smaller_than_a_batch_is_one_batch() -> None:
    order = EpochOrder(Numbers(5), batch_size=8, seed=0)
    assert sorted(order.step(7)[1].tolist()) == [0, 1, 2, 3, 4] and order.step(7)[0] == 7


def test_empty_train_split_is_refused() -> None:
    with pytest.raises(DataError, match="train split is empty"):
        EpochOrder(Numbers(0), batch_size=8, seed=0)


def test_buckets_pad_little_and_still_use_every_row_once() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, size=2048)
    bucketed = EpochOrder(Numbers(2048, lengths), batch_size=16, seed=0)
    plain = EpochOrder(Numbers(2048), batch_size=16, seed=0)

    def padded(order: EpochOrder) -> int:
        return int((lengths[order.epoch(0)].max(1) * 16).sum())

    assert sorted(bucketed.epoch(0).ravel().tolist()) == list(range(2048))
    assert padded(bucketed) < 1.05 * lengths.sum() < 1.6 * lengths.sum() < padded(plain)


def test_batches_of_buckets_come_shuffled_and_differ_between_epochs() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, size=512)
    order = EpochOrder(Numbers(512, lengths), batch_size=16, seed=0)
    means = lengths[order.epoch(0)].mean(1)
    assert (np.diff(means) < 0).any() and (np.diff(means) > 0).any()
    assert {frozenset(batch) for batch in order.epoch(0).tolist()} != {
        frozenset(batch) for batch in order.epoch(1).tolist()
    }


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("num_rows", [1, 4, 16, 17, 21])
def test_devices_evaluate_every_row_once_and_meet_at_every_batch(world_size: int, num_rows: int) -> None:
    shares = [
        list(evaluation_batches(num_rows, batch_size=4, rank=rank, world_size=world_size)) for rank in range(world_size)
    ]
    assert {len(batches) for batches in shares} == {-(-num_rows // 4)}
    together = np.concatenate([rows for batches in shares for rows in batches])
    assert sorted(together.tolist()) == list(range(num_rows))


def test_one_device_evaluates_in_order() -> None:
    assert [rows.tolist() for rows in evaluation_batches(5, batch_size=2)] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
def test_shares_of_devices_make_up_the_batch(world_size: int) -> None:
    rows = np.array([4, 9, 1, 7, 3, 0])
    shares = [device_share(rows, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert np.array_equal(np.concatenate(shares), rows)
