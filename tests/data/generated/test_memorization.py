"""Facts are the same in every row and split, and no row tells them."""

from __future__ import annotations

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.generated.recall_problems import Memorization
from headtohead.data.splits.leaks import HELD_OUT

SIZES = {"num_train": 300, "num_validation": 20, "num_test": 20}


def facts_of(source: Memorization, name: str) -> set[tuple[int, int]]:
    split = source.split(name)  # type: ignore[arg-type]
    batch = split.batch(np.arange(len(split)))
    assert batch.tokens is not None and batch.targets is not None
    assert (batch.tokens[:, 1::2] == batch.tokens[0, 1]).all() and (batch.targets[:, 0::2] == IGNORED).all()
    pairs = zip(batch.tokens[:, 0::2].flatten().tolist(), batch.targets[:, 1::2].flatten().tolist(), strict=True)
    return set(pairs)


def test_each_key_has_one_value_in_all_splits_and_no_row_tells_it() -> None:
    source = from_fields(Memorization, **SIZES, length=16, num_facts=20)
    results = [facts_of(source, name) for name in SPLIT_NAMES]
    assert results[0] == results[0] | results[1] | results[2]
    assert len(results[0]) == len({key for key, _ in results[0]}) == len({value for _, value in results[0]}) == 20
    assert not {key for key, _ in results[0]} & {value for _, value in results[0]}


def test_rows_of_test_are_no_leak_though_their_facts_are_known() -> None:
    leaks = from_fields(Memorization, **SIZES).leaks()
    assert all(leaks[split]["exactly"] == 0 for split in HELD_OUT) and set(leaks["expected"]) == set(HELD_OUT)


def test_another_seed_has_other_facts() -> None:
    first, second = (from_fields(Memorization, **SIZES, seed=seed) for seed in (0, 1))
    assert (first.facts() == second.facts()).mean() < 0.2
    assert first.decode([5, 5 + 256, 5 + 128]) == "k0 . v0"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"length": 7}, "data.length=7 must be at least 2 and even"),
        ({"num_facts": 1}, "data.num_facts=1 must be at least 2"),
        ({"length": 2, "num_facts": 4}, "data=memorization has too few different rows of data.length=2"),
    ],
)
def test_impossible_rows_are_refused(chosen: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_fields(Memorization, **SIZES, **chosen).prepare()
