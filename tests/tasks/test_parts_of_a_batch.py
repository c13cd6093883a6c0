"""A loss is a sum and a count: parts of a batch, on one device or on many, train what the whole batch does."""

from __future__ import annotations

import pytest
import torch

from small_batches import head, tail
from task_cases import NUM_ROWS, TASKS, TaskCase

ADDS_UP = [name for name, case in TASKS.items() if not case.make().compares_rows]


def total_and_count(case: TaskCase, parts: list[int]) -> tuple[float, int]:
    """Return what the parts of a batch, of so many rows each, add up to; each counts what it promised."""
    task, model = case.task().train(), case.model().eval()
    total, count, rest = 0.0, 0, case.batch()
    for size in parts:
        view = task.training_view(head(rest, size), seed=0, epoch=0)
        with torch.no_grad():
            loss = task.loss(model, view)
        assert int(loss.count) == task.counted(view)
        total, count, rest = total + float(loss.total), count + int(loss.count), tail(rest, size)
    return total, count


@pytest.mark.parametrize("task", ADDS_UP)
def test_totals_and_counts_of_parts_add_up_to_those_of_the_batch(task: str) -> None:
    case = TASKS[task]
    total, count = total_and_count(case, [NUM_ROWS])
    for parts in ([1, 5], [2, 4], [3, 3], [1] * NUM_ROWS):
        in_parts = total_and_count(case, parts)
        assert in_parts == (pytest.approx(total, rel=1e-5), count), parts
