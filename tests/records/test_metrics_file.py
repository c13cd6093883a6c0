"""metrics.csv: what is written is what is read, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.records.metrics_file import MetricsFile
from headtohead.records.record import Progress


def log_steps(file: MetricsFile, steps: range, value: float = 1.0) -> None:
    for step in steps:
        file.append(Progress(step, step // 10, step * 100, step * 1e6, step * 0.5), {"train/loss": value})


def test_curves_read_back_as_they_were_logged(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.append(Progress(1, 0, 100, 1e9, 0.25), {"train/loss": 2.5, "train/learning_rate": 1e-3})
    file.append(Progress(2, 0, 200, 2e9, 0.5), {"train/loss": float("nan")})

    curves = file.curves()

    assert set(curves) == {"train/loss", "train/learning_rate"}
    loss = curves["train/loss"]
    assert (loss.step, loss.epoch, loss.tokens, loss.flops, loss.seconds) == (
        [1, 2],
        [0, 0],
        [100, 200],
        [1e9, 2e9],
        [0.25, 0.5],
    )
    assert loss.value[0] == 2.5
    assert loss.value[1] != loss.value[1]
    assert curves["train/learning_rate"].value == [1e-3]


def test_a_reader_of_few_metrics_gets_those_and_no_other(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.append(Progress(1), {"train/loss": 2.5, "train/learning_rate": 1e-3})
    assert file.curves({"train/loss", "validation/loss"}) == {"train/loss": file.curves()["train/loss"]}


def test_a_value_logged_twice_for_one_step_reads_once_as_the_later(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    log_steps(file, range(1, 4), value=1.0)
    log_steps(file, range(3, 5), value=2.0)

    loss = file.curves()["train/loss"]

    assert (loss.step, loss.value) == ([1, 2, 3, 4], [1.0, 1.0, 2.0, 2.0])


def test_a_metric_name_that_would_break_the_file_is_refused(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    for name in ("a,b", 'a"b', "a b", "a\nb", ""):
        with pytest.raises(ValueError, match="metric name"):
            file.append(Progress(), {name: 1.0})


def test_a_metrics_file_of_other_columns_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n1,2\n")
    with pytest.raises(ValueError, match=r"metrics\.csv: the columns are step, loss; expected step, epoch"):
        MetricsFile(path).rows()


@pytest.mark.parametrize("line", ["-1,0,0,0.0,0.0,loss,1.0", "1,-1,0,0.0,0.0,loss,1.0", "1,0,-9,0.0,0.0,loss,1.0"])
def test_a_count_below_zero_is_damage(line: str, tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.append(Progress(), {"loss": 1.0})
    with file.path.open("a") as appended:
        appended.write(f"{line}\n")
    with pytest.raises(ValueError, match="is damaged in line 3"):
        file.rows()


def test_a_torn_last_line_is_no_row(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    log_steps(file, range(1, 4))
    file.path.write_bytes(file.path.read_bytes()[:-4])

    assert file.curves()["train/loss"].step == [1, 2]


def test_dropping_later_rows_keeps_every_number_to_the_last_digit(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    values = {"a": 1 / 3, "b": 1e-300, "c": float("inf"), "d": -0.0, "e": 123456789.123456789}
    file.append(Progress(1, 0, 2**60, 1.23456789e21, 1.5), values)
    file.append(Progress(2), {"a": 1.0})
    saved = file.path.read_text().splitlines()[:-1]

    file.drop_after(1)

    assert file.path.read_text().splitlines() == saved
