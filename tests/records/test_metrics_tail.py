"""metrics.csv is read on from where one stopped."""

from __future__ import annotations

from pathlib import Path

from headtohead.records.metrics_file import MetricsFile
from headtohead.records.metrics_tail import ReadPosition, read_on
from headtohead.records.record import Progress


def test_only_what_was_added_is_read_the_second_time(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.append(Progress(1), {"train/loss": 3.0, "validation/loss": 2.5})
    first = read_on(file.path, ReadPosition())
    file.append(Progress(2), {"train/loss": 1.0})
    second = read_on(file.path, first.position)
    assert [(point.name, point.value) for point in first.points()] == [("train/loss", 3.0), ("validation/loss", 2.5)]
    assert second.text.count(b"\n") == 1
    assert [(point.progress.step, point.value) for point in second.points("train/loss")] == [(2, 1.0)]
    assert not second.restarted
    assert read_on(file.path, second.position).text == b""


def test_the_latest_of_each_metric_are_the_last_lines(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    for step in (1, 2, 3):
        file.append(
            Progress(step), {"train/loss": 1 / step} if step != 2 else {"validation/loss": 2.0, "train/loss": 0.5}
        )
    piece = read_on(file.path, ReadPosition())
    latest = {point.name: (point.progress.step, point.value) for point in piece.latest()}
    assert latest == {"validation/loss": (2, 2.0), "train/loss": (3, 1 / 3)}
    assert piece.latest()[-1].progress.step == 3


def test_a_torn_last_line_waits_for_its_end(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.append(Progress(1), {"train/loss": 3.0})
    with file.path.open("a") as handle:
        handle.write("2,0,0,0.0,0.000,train/loss,0.")
    torn = read_on(file.path, ReadPosition())
    with file.path.open("a") as handle:
        handle.write("125\n")
    assert [point.value for point in torn.points()] == [3.0]
    assert [point.value for point in read_on(file.path, torn.position).points()] == [0.125]


def test_a_resumed_run_is_read_anew(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    for step in range(1, 6):
        file.append(Progress(step), {"train/loss": float(step)})
    position = read_on(file.path, ReadPosition()).position
    file.drop_after(2)
    for step in range(3, 9):
        file.append(Progress(step), {"train/loss": -float(step)})
    again = read_on(file.path, position)
    assert again.restarted
    assert [point.value for point in again.points()] == [1.0, 2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -8.0]


def test_what_is_no_number_is_a_gap(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.append(Progress(1), {"train/loss": float("nan"), "gradient_norm": float("inf")})
    assert [point.value for point in read_on(file.path, ReadPosition()).points()] == [None, None]


def test_a_run_without_metrics_has_no_points(tmp_path: Path) -> None:
    piece = read_on(tmp_path / "metrics.csv", ReadPosition())
    assert list(piece.points()) == []
    assert not piece.restarted


def test_what_a_power_failure_left_is_passed_over(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.append(Progress(1), {"train/loss": 3.0})
    with file.path.open("ab") as handle:
        handle.write(bytes(40) + b"\n\xff,a,b,c,d,train/loss,e\n")
    file.append(Progress(2), {"train/loss": 2.0})
    assert [point.value for point in read_on(file.path, ReadPosition()).points()] == [3.0, 2.0]
