"""The table of records: the right number against the right chance, nothing dropped, nothing executed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from headtohead.comparison.tables.run_table import (
    FittedTable,
    TableLine,
    as_data,
    as_table,
    count,
    line_of,
    lines_of,
    number,
    run_paths,
)
from headtohead.records.record import CheckpointSelection, Progress, RunRecord, WandbLink


def record(name: str = "tiny", **fields: Any) -> RunRecord:
    made = RunRecord(
        id=f"{name}-1",
        name=name,
        status="finished",
        metrics={"validation": {"loss": 2.0}, "test": {"loss": 2.1}},
        baselines={"loss": 4.159, "accuracy": 0.1},
        costs={"totals": {"parameters": 124_439_808, "training_flops_per_token": 853.6e6}},
        throughput={"tokens_per_second": 12345.6, "samples_per_second": 96.4, "peak_memory_bytes": 1.5 * 2**30},
        progress=Progress(step=300),
    )
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def printed(table: Table | FittedTable, *, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def text_of(lines: list[TableLine]) -> str:
    return printed(as_table(lines))


def test_a_line_holds_result_chance_costs_and_speed() -> None:
    line = line_of(record())
    assert (line.stage, line.metric, line.value, line.baseline) == ("test", "loss", 2.1, 4.159)
    assert (line.parameters, line.flops_per_token) == (124_439_808, 853.6e6)
    assert (line.tokens_per_second, line.peak_memory_bytes, line.steps) == (12345.6, 1.5 * 2**30, 300)


def test_a_classifier_is_told_by_its_accuracy() -> None:
    line = line_of(record(metrics={"test": {"loss": 0.2, "accuracy": 0.97}}))
    assert (line.metric, line.value, line.baseline) == ("accuracy", 0.97, 0.1)


def test_the_metric_that_selected_comes_before_habit() -> None:
    metrics = {"test": {"loss": 0.2, "accuracy": 0.97, "f1": 0.9}}
    line = line_of(record(metrics=metrics, selection=CheckpointSelection("f1", "max")))
    assert (line.metric, line.value, line.baseline) == ("f1", 0.9, None)


def test_a_metric_asked_for_by_name_is_shown_and_never_replaced() -> None:
    assert line_of(record(), metric="loss").value == 2.1
    assert line_of(record(), metric="accuracy").value is None


def test_without_a_test_result_the_validation_counts_and_the_table_says_so() -> None:
    line = line_of(record(metrics={"validation": {"loss": 2.0}, "test": {}}))
    assert (line.stage, line.value) == ("validation", 2.0)
    assert "loss 2.000 (validation)" in text_of([line])


def test_runs_that_failed_are_lines_too_with_their_reason() -> None:
    failed = RunRecord(id="x-1", name="x", status="out_of_memory", reason="lower data.batch_size")
    lines = lines_of([failed, record()])
    assert len(lines) == 2
    shown = text_of(lines)
    assert "out of memory: lower data.batch_size" in shown
    assert lines[1].value is None


def test_lines_come_in_the_order_of_group_name_and_seed() -> None:
    records = [record("b", seed=0), record("a", seed=1), record("a", seed=0), record("z", group="a group")]
    assert [(line.group, line.name, line.seed) for line in lines_of(records)] == [
        ("a group", "z", 0),
        ("default", "a", 0),
        ("default", "a", 1),
        ("default", "b", 0),
    ]


def test_seeds_are_shown_where_they_differ() -> None:
    assert "seed" not in text_of(lines_of([record("a"), record("b")]))
    assert "seed" in text_of(lines_of([record("a"), record("a", seed=1)]))


def test_the_table_shows_rounded_numbers_with_units() -> None:
    shown = text_of([line_of(record())])
    for cell in ("loss 2.100", "4.159", "124 M", "854 M", "12.3 k tokens/s", "1.5 GiB", "finished"):
        assert cell in shown


def test_images_are_counted_in_samples() -> None:
    speed = {"tokens_per_second": 0.0, "samples_per_second": 512.4}
    assert "512 samples/s" in text_of([line_of(record(throughput=speed))])


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [(999, "999 "), (999_600, "1 M"), (999_400, "999 k"), (70_000_000_000, "70 G"), (None, "-")],
)
def test_counts_are_shown_with_three_figures(parameters: int | None, shown: str) -> None:
    assert shown in text_of([line_of(record(costs={"totals": {"parameters": parameters}}))])


def test_a_name_is_text_and_no_markup() -> None:
    assert "[red]x[/red] [link=a]" in text_of([line_of(record("[red]x[/red] [link=a]"))])


def test_the_data_is_plain_json_with_every_field() -> None:
    data = as_data(lines_of([record(), record("other", metrics={})]))
    assert json.loads(json.dumps(data)) == data
    assert data[1]["value"] == 2.1
    assert data[0]["value"] is None


def test_a_line_tells_where_the_run_is_on_disk_and_in_wandb() -> None:
    offline = line_of(record(path=Path("/runs/a"), wandb=WandbLink("a", "offline", None, "wandb/offline-run-a")))
    assert (offline.path, offline.wandb) == ("/runs/a", "/runs/a/wandb/offline-run-a")
    online = line_of(record(path=Path("/runs/a"), wandb=WandbLink("a", "online", "https://host/a", "wandb/run-a")))
    assert online.wandb == "https://host/a"


def test_a_translator_is_told_by_its_exact_matches() -> None:
    line = line_of(record(metrics={"test": {"loss": 0.2, "token_accuracy": 0.97, "exact_match": 0.6}}))
    assert (line.metric, line.value) == ("exact_match", 0.6)


@pytest.mark.parametrize("options", ["bleu", "chrf", "rougeL"])
def test_a_translator_is_told_by_the_measure_of_texts_that_its_task_asks_for(options: str) -> None:
    line = line_of(record(metrics={"test": {"loss": 0.2, "token_accuracy": 0.5, "exact_match": 0.0, options: 0.31}}))
    assert (line.metric, line.value) == (options, 0.31)


def test_whereabouts_are_paths_from_here_and_addresses_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    offline = record(path=tmp_path / "outputs/a", wandb=WandbLink(directory="wandb/offline-run-1"))
    online = record(path=tmp_path / "outputs/b", wandb=WandbLink(url="https://wandb.example/b"))
    first, second = run_paths(lines_of([offline, online]))
    assert "record: outputs/a/record.json" in first and "W&B: outputs/a/wandb/offline-run-1" in first
    assert "record: outputs/b/record.json" in second and "W&B: https://wandb.example/b" in second


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-0.0, "0.000"),
        (-0.0004, "-0.00040"),
        (2.5e-05, "0.000025"),
        (3e-9, "3e-09"),
        (0.01, "0.010"),
        (-12.5, "-12.500"),
    ],
)
def test_a_small_number_is_told_with_its_figures_and_nothing_has_no_sign(value: float, message: str) -> None:
    assert number(value) == message


def test_on_a_narrow_terminal_no_name_no_number_and_no_status_is_lost() -> None:
    lines = lines_of([record("a_rather_long_name_of_a_run", seed=seed) for seed in range(2)])
    message = printed(as_table(lines), width=80)
    assert "…" not in message and message.count("┏") == 2
    assert "finished" in message and "loss 2.100" in message and "12.3 k tokens/s" in message and "1.5 GiB" in message
    assert max(map(len, message.splitlines())) <= 80


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.28e18, "1.28 E"), (1.28e15, "1.28 P"), (999.6e12, "1 P"), (1.28e12, "1.28 T"), (124e6, "124 M"), (12.0, "12")],
)
def test_counts_have_three_figures_however_large(value: float, text: str) -> None:
    assert count(value) == text
