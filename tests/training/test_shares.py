"""Every row is evaluated once, and all devices have equally many batches."""

from __future__ import annotations

import pytest

from headtohead.data.data_source import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.training.loop.data_module import EvaluationBatches
from small_models import VOCAB_SIZE
from training.runs import NUM_ROWS, Rows

TASK = CausalLanguageModelling().bind(DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=13))
ROWS = Rows("validation", ragged=False)


def rows_of(world_size: int, **settings: int) -> list[list[list[int]]]:
    """The row numbers of each batch of each device."""
    devices = [
        EvaluationBatches(ROWS, TASK, rank=rank, world_size=world_size, **settings) for rank in range(world_size)
    ]
    return [[batches[n].parts[0].rows.tolist() for n in range(len(batches))] for batches in devices]


@pytest.mark.parametrize("batch_size", [3, 4, 7, 9, 10])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_no_device_is_without_rows_where_another_has_some(world_size: int, batch_size: int) -> None:
    devices = rows_of(world_size, batch_size=batch_size)
    assert len({len(batches) for batches in devices}) == 1
    assert all(rows for batches in devices for rows in batches)
    result = sorted(row for batches in devices for rows in batches for row in rows)
    assert result == list(range(NUM_ROWS["validation"]))
