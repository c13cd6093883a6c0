"""Run folders: ids, numbers that outlive a kill, dead processes, resuming, and finding runs again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typing_extensions import override

from headtohead.files import disk_operations, process_liveness
from headtohead.files.atomic_write import replace_text
from headtohead.files.disk_operations import Disk
from headtohead.files.leases import STALE_SECONDS
from headtohead.files.process_liveness import Owner
from headtohead.records import run_folder
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder, find_runs, load_run, new_id, scan
from headtohead.records.strict_json import RecordError
from waiting import PATIENCE, until

WRITES_UNTIL_KILLED = """
import sys
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder

folder = RunFolder.create(sys.argv[1], name="doomed")
folder.write_record(RunRecord(id=folder.id))
step = 0
while True:
    step += 1
    folder.log(Progress(step, 0, step * 10, step * 1e3, step * 0.1), {"train/loss": 1 / step, "train/norm": 2.0})
    if step == 20:
        print(folder.path, flush=True)
"""
STARTS_WITH_OTHERS = """
import sys
from headtohead.records import run_folder

run_folder._ID_ALPHABET = sys.argv[2]
sys.stdin.readline()
folder = run_folder.RunFolder.create(sys.argv[1], name="same")
print(folder.id, flush=True)
sys.stdin.readline()
folder.check_lease()
"""


def new_run(outputs: Path, name: str = "tiny", status: str = "running") -> RunFolder:
    folder = RunFolder.create(outputs, name=name)
    folder.write_record(RunRecord(id=folder.id, name=name, status=status))
    return folder


def log_steps(folder: RunFolder, steps: range, value: float = 1.0) -> None:
    for step in steps:
        folder.log(Progress(step, step // 10, step * 100, step * 1e6, step * 0.5), {"train/loss": value})


def killed_run(outputs: Path) -> Path:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES_UNTIL_KILLED, str(outputs)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    path = Path(process.stdout.readline().strip())
    process.kill()
    process.stdout.close()
    process.wait()
    return path


def test_runs_that_start_at_the_same_moment_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        folders = list(pool.map(lambda _: RunFolder.create(tmp_path, name="same"), range(200)))
    assert len({folder.path for folder in folders}) == 200


@pytest.mark.process
def test_processes_that_start_at_the_same_moment_get_folders_of_their_own(tmp_path: Path) -> None:
    """The ids have so few letters that they do collide."""
    command = [sys.executable, "-c", STARTS_WITH_OTHERS, str(tmp_path), "ab"]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for _ in range(20)
    ]
    for process in started:
        process.stdin.write("go\n")
    ids = {process.stdout.readline().strip() for process in started}
    for process in started:
        process.communicate("end\n", timeout=PATIENCE)
    assert len(ids) == 20 and [process.returncode for process in started] == [0] * 20
    assert {path.name for path in (tmp_path / "default").iterdir()} == ids


def test_an_id_that_is_taken_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter(["one", "one", "two"])
    monkeypatch.setattr(run_folder, "new_id", lambda _: next(ids))

    assert [RunFolder.create(tmp_path, name="x").id for _ in range(2)] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("decoder_only rotary lr=3e-4", "decoder_only-rotary-lr-3e-4-"),
        ("../../etc", "etc-"),
        ("Ünï", "n-"),
        ("///", "run-"),
        ("x" * 300, "x" * 40 + "-"),
    ],
)
def test_an_id_tells_the_name_in_characters_that_folders_and_wandb_allow(name: str, start: str) -> None:
    assert new_id(name).startswith(start)
    assert len(new_id(name)) <= 64


def test_a_group_stays_below_the_outputs(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "outputs", name="x", group="../../outside")
    assert folder.path.parent == tmp_path / "outputs" / "outside"


def test_outputs_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        RecordError, match=r"output_dir=\S+/file cannot hold default/ \(Not a directory\): give a writable folder"
    ):
        RunFolder.create(tmp_path / "file", name="tiny")


@pytest.mark.process
def test_a_kill_loses_no_row_and_the_record_reads_as_interrupted(tmp_path: Path) -> None:
    path = killed_run(tmp_path)

    record = load_run(path)

    assert record.status == "interrupted"
    assert record.reason == run_folder.DIED
    assert record.progress.step >= 20
    loss = RunFolder.open(path).metrics()["train/loss"]
    assert loss.step == list(range(1, record.progress.step + 1))
    assert loss.value[9] == 0.1
    assert json.loads((path / "record.json").read_text())["status"] == "running"


@pytest.mark.process
def test_a_process_that_is_dead_but_not_yet_waited_for_counts_as_dead(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = process_liveness._start_of(process.pid)
    owner = Owner(process.pid, started or "", process_liveness._machine())
    assert owner.is_alive()

    os.kill(process.pid, signal.SIGKILL)
    until(lambda: not owner.is_alive())
    process.communicate()


def test_a_run_of_a_live_process_reads_as_running_as_far_as_it_has_come(tmp_path: Path) -> None:
    folder = new_run(tmp_path)
    log_steps(folder, range(1, 8))

    record = load_run(folder.path)

    assert (record.status, record.progress.step, record.progress.tokens) == ("running", 7, 700)


def test_another_process_with_the_same_number_does_not_keep_a_run_alive(tmp_path: Path) -> None:
    folder = new_run(tmp_path)
    beat = folder.path / "leases" / "writer.1"
    beat.write_text(json.dumps({**json.loads(beat.read_text()), "started": "1"}))

    assert load_run(folder.path).status == "interrupted"


@pytest.mark.parametrize(
    ("age", "status"),
    [(1, "running"), (STALE_SECONDS + 5, "interrupted"), (-STALE_SECONDS - 5, "interrupted")],
    ids=["lately", "long ago", "in the future, by a clock that was set back"],
)
def test_a_run_on_another_machine_reads_as_running_as_long_as_it_shows_life(
    tmp_path: Path, age: float, status: str
) -> None:
    folder = new_run(tmp_path)
    beat = folder.path / "leases" / "writer.1"
    beat.write_text(json.dumps({"pid": 1, "started": "1", "machine": "another"}))
    then = time.time() - age
    os.utime(beat, (then, then))

    assert load_run(folder.path).status == status


def test_a_finished_run_stays_finished_when_its_process_is_gone(tmp_path: Path) -> None:
    folder = new_run(tmp_path, status="diverged")
    folder.release()

    assert load_run(folder.path).status == "diverged"


@pytest.mark.process
def test_a_resumed_run_forgets_what_came_after_and_shows_no_step_twice(tmp_path: Path) -> None:
    path = killed_run(tmp_path)

    folder = RunFolder.resume(path, step=12)
    log_steps(folder, range(13, 31), value=9.0)

    curves = folder.metrics()
    assert curves["train/loss"].step == list(range(1, 31))
    assert curves["train/loss"].value[11:13] == [1 / 12, 9.0]
    assert curves["train/norm"].step == list(range(1, 13))
    lines = (path / "metrics.csv").read_text().splitlines()
    assert len(lines) == 1 + 12 * 2 + 18
    assert load_run(path).status == "running"


@pytest.mark.process
def test_a_run_that_another_live_process_writes_cannot_be_resumed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES_UNTIL_KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    path = process.stdout.readline().strip()
    try:
        with pytest.raises(
            RecordError, match=r"is being written by process \d+ on \S+ \(last sign of life .*--take-over"
        ):
            RunFolder.resume(path, step=1)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "record.json"
    replace_text(file, "old")

    class Broken(Disk):
        @override
        def sync(self, handle: int) -> None:
            raise OSError("input/output error")

    monkeypatch.setattr(disk_operations, "system", Broken())
    with pytest.raises(OSError, match="input/output"):
        replace_text(file, "new")

    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert file.read_text() == "old"


def test_written_files_follow_the_umask(tmp_path: Path) -> None:
    replace_text(tmp_path / "a", "text")
    (tmp_path / "b").write_text("text")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_record_in_the_wrong_folder_is_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not belong"):
        new_run(tmp_path).write_record(RunRecord(id="another"))


def test_the_config_is_kept_to_the_letter_but_for_secrets(tmp_path: Path) -> None:
    folder = new_run(tmp_path)
    folder.write_config("# header\nseed: 1\ntracking:\n  api_key: abc\n")
    assert (folder.path / "config.yaml").read_text() == "# header\nseed: 1\ntracking:\n  api_key: '***'\n"


def test_a_run_opens_by_its_folder_or_by_a_file_in_it(tmp_path: Path) -> None:
    folder = new_run(tmp_path)
    assert RunFolder.open(folder.path / "record.json").path == RunFolder.open(str(folder.path)).path == folder.path


def test_opening_what_is_no_run_says_what_a_run_is(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"holds no record\.json: name the folder of a run"):
        RunFolder.open(tmp_path / "nothing")


def test_scan_finds_runs_at_any_depth_and_not_inside_runs(tmp_path: Path) -> None:
    new_run(tmp_path / "studies" / "deep", "one", "finished")
    outer = new_run(tmp_path, "two", "failed")
    new_run(outer.path, "inner")
    (tmp_path / ".hidden").mkdir()
    new_run(tmp_path / ".hidden", "hidden")

    assert sorted(record.name for record in scan(tmp_path)) == ["one", "two"]
    assert all(record.path == folder.path for record, folder in zip(scan(tmp_path), find_runs(tmp_path), strict=True))


def test_scan_raises_on_an_unreadable_record_unless_told_where_to_report_it(tmp_path: Path) -> None:
    new_run(tmp_path, "good", "finished")
    bad = new_run(tmp_path, "bad")
    (bad.path / "record.json").write_text("{")

    with pytest.raises(RecordError, match="bad-"):
        scan(tmp_path)
    problems: list[RecordError] = []
    assert [record.name for record in scan(tmp_path, on_error=problems.append)] == ["good"]
    assert len(problems) == 1


def test_a_run_goes_where_its_folder_was_chosen_and_never_over_another(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "runs" / "0a1b")
    folder.release()
    folder = RunFolder.create_at(folder.path)
    assert folder.id == "0a1b", "a folder without a record is nobody's"
    folder.write_record(RunRecord(id="0a1b"))
    folder.release()
    with pytest.raises(RecordError, match="holds a run already"):
        RunFolder.create_at(folder.path)
    folder.claim()
    assert folder.written_here() and folder.is_live()
    folder.mark_abandoned()
    assert not folder.written_here() and folder.read_record().status == "interrupted"
