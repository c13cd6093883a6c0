"""The table at the end of a run: every metric with its baseline beside it."""

from __future__ import annotations

import io

from rich.console import Console

from headtohead.comparison.tables.results_table import results_table
from headtohead.records.record import RunRecord


def printed(record: RunRecord) -> list[list[str]]:
    table = results_table(record)
    assert table is not None
    console = Console(file=io.StringIO(), width=160, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_every_metric_of_the_test_stands_beside_its_baseline() -> None:
    record = RunRecord(
        id="a-1",
        metrics={"validation": {"loss": 1.0, "entity_f1": 0.5}, "test": {"loss": 1.25, "entity_f1": 0.75}},
        baselines={"loss": 3.5, "entity_f1": 0.0},
    )
    assert printed(record) == [["loss", "1.250", "1.000", "3.500"], ["entity f1", "0.750", "0.500", "0.000"]]


def test_what_is_not_known_is_left_open() -> None:
    record = RunRecord(id="a-1", metrics={"validation": {"loss": 1.0}, "test": {}}, baselines={})
    assert printed(record) == [["loss", "-", "1.000", "-"]]


def test_a_run_that_was_never_measured_has_no_such_table() -> None:
    assert results_table(RunRecord(id="a-1", status="failed")) is None
