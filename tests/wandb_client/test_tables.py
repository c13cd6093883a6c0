"""Tables as files, pictures and W&B tables, read back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from headtohead.metrics.metric import MetricTable
from headtohead.records.record import Progress
from headtohead.training.callbacks.sample_logger import draw_matrix, table_of, write_csv
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.wandb_tracker import WandbTracker, start
from run_folders import OFFLINE, history, new_run

SAMPLES = MetricTable(("text", "score"), (('a "quoted", text\nof two lines', 0.1), ("Grüße", 2)))
MATRIX = MetricTable(("true, predicted", "cat", "dog"), (("cat", 90, 10), ("dog", 0, 5)), is_matrix=True)


def test_a_file_of_comma_separated_values_gives_the_cells_back(tmp_path: Path) -> None:
    write_csv(SAMPLES, tmp_path / "samples.csv")
    with (tmp_path / "samples.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["text", "score"], ['a "quoted", text\nof two lines', "0.1"], ["Grüße", "2"]]


def test_samples_become_a_table_with_their_names_as_columns() -> None:
    assert table_of([{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]) == MetricTable(("a", "b"), (("1", "2"), ("3", "4")))
    assert table_of([]) == MetricTable((), ())


def test_a_matrix_is_drawn_darker_where_more_of_a_true_class_fall() -> None:
    picture = draw_matrix(MATRIX)
    assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    height, width = picture.shape[:2]
    blue = (picture[..., 2].astype(int) - picture[..., 0]) > 60
    filled = [blue[: height // 2, : width // 2], blue[: height // 2, width // 2 : -width // 4]]
    assert filled[0].sum() > 5 * filled[1].sum(), "9 of 10 cats are called cats"


@pytest.mark.slow
def test_a_drawn_matrix_says_which_classes_are_the_true_ones() -> None:
    """Left of the frame stand the axis's name, the classes and their ticks, with white between them."""
    names = [str(digit) for digit in range(10)]
    rows = tuple((name, *np.eye(10, dtype=int)[at].tolist()) for at, name in enumerate(names))
    ink = draw_matrix(MetricTable(("", *names), rows, is_matrix=True)).min(axis=2) < 200
    frame = int(np.argmax(ink.mean(axis=0) > 0.5))
    beside = ink[:, :frame].any(axis=0)
    assert (np.diff(beside.astype(int)) == 1).sum() == 3


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 25, 70])
def test_any_number_of_classes_with_any_names_can_be_drawn(size: int) -> None:
    names = [f"$x_{number}$ <b> 猫" for number in range(size)]
    counts = [(name, *np.zeros(size, dtype=int).tolist()) for name in names]
    picture = draw_matrix(MetricTable(("", *names), tuple(counts), is_matrix=True))
    assert min(picture.shape[:2]) > 200


@pytest.mark.process
def test_wandb_holds_the_table_and_the_step_it_is_of(tmp_path: Path) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(OFFLINE, record, folder)
    tracker.tables(Progress(40, tokens=7), {"validation/samples": SAMPLES, "validation/confusion_matrix": MATRIX})
    tracker.finish("finished")
    assert isinstance(tracker, WandbTracker)

    (row,) = [row["item"] for row in history(tracker.directory)]
    assert row["trainer/global_step"] == 40 and row["progress/tokens"] == 7
    for name, table in (("validation/samples", SAMPLES), ("validation/confusion_matrix", MATRIX)):
        assert row[f"{name}._type"] == "table-file"
        assert (row[f"{name}.nrows"], row[f"{name}.ncols"]) == (2, len(table.columns))
        content = json.loads((tracker.directory / "files" / row[f"{name}.path"]).read_text(encoding="utf-8"))
        assert content["columns"] == list(table.columns)
        assert content["data"] == [list(runs) for runs in table.rows]


def test_without_wandb_tables_go_nowhere(tmp_path: Path) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(TrackingSettings(mode="none"), record, folder)
    tracker.tables(Progress(), {"samples": SAMPLES})
    assert not folder.wandb.exists()
