"""A study at a glance: arms by seeds, in 80 columns, from a study's folder alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from headtohead.cli.study_board import board_lines, watch
from headtohead.comparison.planned_runs import PLANNED_RUNS
from headtohead.comparison.study_board import MISSING, BoardCell, StudyBoard, read_board
from headtohead.config.errors import ConfigurationError
from headtohead.records.record import Progress, RunRecord, StudyPosition
from headtohead.records.run_folder import RunFolder
from studies.small_studies import WRITTEN


def written(study: Path, arm: str, seed: int, status: str, *, step: int = 0, seconds: float = 0.0) -> None:
    folder = RunFolder.create_at(study / "runs" / f"{arm}{seed}")
    position = StudyPosition(study=study.name, arm=arm, seed=seed)
    record = RunRecord(id=folder.id, name=arm, status=status, place=position, config={"trainer": {"max_steps": 100}})
    record.progress = Progress(step, 0, 0, 0.0, seconds)
    record.timing.started = "2026-01-01T00:00:00+00:00"
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
    assert board.counts == {"done": 1, "running": 1, "interrupted": 0, "failed": 1, "not started": 1}
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


@pytest.mark.parametrize("first_seed", [0, 123456])
@pytest.mark.parametrize("num_seeds", [3, 11, 40, 2000])
def test_no_line_is_longer_whatever_arms_are_called(num_seeds: int, first_seed: int) -> None:
    arms, seeds = ("a" * 70 + "-first", "a" * 70 + "-other"), tuple(range(first_seed, first_seed + num_seeds))
    statuses = ("finished", "running", "interrupted", "failed", MISSING)
    cells = {(arm, seed): BoardCell(statuses[seed % 5], 1.0, "", 1e4) for arm in arms for seed in seeds}
    trials = dict.fromkeys(("finished", "running", "out_of_memory", "out_of_disk", "interrupted", "failed"), 12345)
    lines = list(board_lines("s" * 90, StudyBoard(arms, seeds, cells, trials)))
    assert max(map(len, lines)) <= 80
    assert any("first" in line for line in lines) and any("other" in line for line in lines)
    heads = next(line.split()[1:] for line in lines if line.startswith("seed"))
    assert num_seeds > 3 or heads == list(map(str, seeds))


def test_a_run_that_the_study_resumes_is_no_failure_and_is_waited_for(study: Path) -> None:
    written(study, "layer", 1, "interrupted", step=25, seconds=10.0)
    board = read_board(study)
    assert board.counts == {"done": 1, "running": 1, "interrupted": 1, "failed": 1, "not started": 0}
    assert board.seconds_left == pytest.approx(20 + 30) and not board.is_done
    assert "‖" in next(line for line in board_lines("norms", board) if line.startswith("layer"))
    ended = {index: BoardCell("failed") if cell.status != "finished" else cell for index, cell in board.cells.items()}
    assert replace(board, cells=ended).is_done


def test_runs_of_an_older_question_count_only_where_the_plan_has_them(study: Path) -> None:
    """The folder's older runs are whole, and of the new plan one is known, and one was started since."""
    for number, (name, day) in enumerate((("old", 1), ("older", 2), ("shared", 3), ("new", 9))):
        folder = RunFolder.create_at(study / "runs" / name)
        position = StudyPosition(study=study.name, arm="none", seed=number)
        record = RunRecord(id=name, status="finished", place=position)
        record.timing.started = f"2026-01-0{day}T00:00:00+00:00"
        folder.write_record(record)
    other = {"arms": {"none": "c"}, "seeds": [0, 1, 2, 3], "time": "2025-01-01"}
    (study / "registrations" / "other.json").write_text(json.dumps(other), encoding="utf-8")
    for since, new in (("2026-01-08T00:00:00+00:00", "finished"), (None, MISSING)):
        planned = {"registration": "other.json", "since": since, "runs": ["shared"]}
        (study / PLANNED_RUNS).write_text(json.dumps(planned), encoding="utf-8")
        board = read_board(study)
        assert (board.arms, board.seeds) == (("none",), (0, 1, 2, 3))
        assert [board.cells["none", seed].status for seed in board.seeds] == [MISSING, MISSING, "finished", new]
    (study / PLANNED_RUNS).write_text('{"runs": 3}', encoding="utf-8")
    assert read_board(study).counts["done"] == 5, "without a list that can be read, all runs of the folder count"


def test_runs_are_looked_for_where_the_study_puts_them(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(study)
    override = f"output_dir={study.parents[1]}"
    assert watch("norms", [override]) == 0
    Path("norms.yaml").write_text(yaml.safe_dump({**WRITTEN, "base": [override]}))
    assert watch("norms.yaml") == 0
    first, second = capsys.readouterr().out.split("norms: ")[1:]
    assert first == second
    with pytest.raises(ConfigurationError, match=r"^seeds=3 would have no effect"):
        watch("norms", ["seeds=3"])


def test_a_name_without_a_started_study_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="h2h study nothing starts it"):
        watch("nothing")
