"""The best run comes first, whatever metric it was measured by: `prune --top` keeps the weights of no other."""

from __future__ import annotations

import pytest

from headtohead.metrics import Direction, Metric, metrics
from headtohead.records.record import CheckpointSelection, RunRecord
from headtohead.records.run_query import ordered
from headtohead.records.run_summary import RunSummary, summary_of

OWN: list[tuple[str, Direction]] = [(name, one.direction) for name, one in metrics().items() if one.direction]
"""The metrics of the package."""
BY_NAME: list[tuple[str, Direction]] = [("mae", "min"), ("word_error", "min"), ("top1_acc", "max"), ("psnr", "max")]
"""Metrics of others, whose names tell."""


def _run(name: str, value: float, selection: CheckpointSelection, scales: dict[str, Metric]) -> RunSummary:
    record = RunRecord(id=str(value), name=str(value), status="finished", metrics={"test": {name: value}})
    record.selection, record.scales = selection, scales
    return summary_of(record, f"/runs/{value}")


def _check(name: str, direction: Direction, selection: CheckpointSelection, scales: dict[str, Metric]) -> None:
    values = [0.5, 0.25, 1.0, 0.75]
    chosen = ordered((_run(name, value, selection, scales) for value in values), "result")
    assert {run.direction for run in chosen} == {direction}
    assert [run.value for run in chosen] == sorted(values, reverse=direction == "max")


@pytest.mark.parametrize(("name", "direction"), [*OWN, *BY_NAME])
def test_the_best_comes_first_by_the_meaning_of_its_metric(name: str, direction: Direction) -> None:
    for selected in OWN:
        selection = CheckpointSelection(*selected) if selected[0] != name else CheckpointSelection(name, direction)
        _check(name, direction, selection, {})


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_best_comes_first_by_what_a_run_recorded_of_a_metric_of_its_own(direction: Direction) -> None:
    _check(
        "strangeness",
        direction,
        CheckpointSelection("loss", "min"),
        {"strangeness": Metric("strangeness", direction, None, "rows")},
    )
    _check("strangeness", direction, CheckpointSelection("strangeness", direction), {})
