"""A study at a glance: arms by seeds, in 80 columns, from a study's folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.cli.study_board import board_lines, watch
from headtohead.comparison.study_board import BoardCell, StudyBoard, read_board
from headtohead.config.errors import ConfigurationError
from headtohead.records.record import Progress, RunRecord, StudyPosition
from headtohead.records.run_folder import RunFolder


def written(study: Path, arm: str, seed: int, status: str, *, step: int = 0, seconds: float = 0.0) -> None:
    folder = RunFolder.create_at(study / "runs" / f"{arm}{seed}")
    position = StudyPosition(study=study.name, arm=arm, seed=seed)
    record = RunRecord(id=folder.id, name=arm, status=status, place=position, config={"trainer": {"max_steps": 100}})
    record.progress = Progress(step, 0, 0, 0.0, seconds)
    folder.write_record(record)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "studies" / "norms"
    written(folder, "rms", 0, "finished", step=100, seconds=40.0)
    written(folder, "rms", 1, "failed", step=10, seconds=4.0)
    written(folder, "layer", 0, "running", step=50, seconds=20.0)
    (folder / "registrations").mkdir()
    registered = {"arms": {"layer": "a", "rms": "b"}, "seeds": [0, 1], "time": "2026-01-01"}
    (folder / "registrations" / "one.json").write_text(json.dumps(registered), encoding="utf-8")
    (folder / "registrations" / "torn.json").write_text("{", encoding="utf-8")
    return folder


def test_a_board_has_every_registered_cell_and_the_time_that_is_left(study: Path) -> None:
    board = read_board(study)
    assert (board.arms, board.seeds) == (("layer", "rms"), (0, 1))
    assert board.counts == {"done": 1, "running": 1, "failed": 1, "not started": 1}
    assert board.cells["layer", 0].share == 0.5
    assert board.seconds_left == pytest.approx(20 + 40), "the rest of one run, and one that has not begun"


def test_of_two_questions_in_a_folder_a_cell_is_that_of_the_newer_run(tmp_path: Path) -> None:
    folder = tmp_path / "studies" / "norms"
    for name, day in (("a", 2), ("b", 3), ("c", 1)):
        run = RunFolder.create_at(folder / "runs" / name)
        position = StudyPosition(study="norms", arm="rms", seed=0)
        record = RunRecord(id=name, status="finished", place=position)
        record.timing.started = f"2026-01-0{day}T00:00:00+00:00"
        run.write_record(record)
    assert Path(read_board(folder).cells["rms", 0].path).name == "b"


def test_the_terminal_shows_it_in_80_columns(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert watch(str(study)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "norms: 1 of 4 done, 1 running, 1 failed, 1 not started, about 60 s left"
    assert lines[2].split() == ["layer", "50%", "·"] and lines[3].split() == ["rms", "✓", "✗"]


@pytest.mark.parametrize("num_seeds", [3, 40, 200])
def test_no_line_is_longer_whatever_arms_are_called(num_seeds: int) -> None:
    arms = ("a" * 70 + "-first", "a" * 70 + "-other")
    cells = {(arm, seed): BoardCell("running", 1.0) for arm in arms for seed in range(num_seeds)}
    lines = list(board_lines("s" * 90, StudyBoard(arms, tuple(range(num_seeds)), cells, {})))
    assert max(map(len, lines)) <= 80
    assert any("first" in line for line in lines) and any("other" in line for line in lines)


def test_a_name_without_a_started_study_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="h2h study nothing starts it"):
        watch("nothing")
