"""Two processes at one run folder: exactly one writes, in every order of their steps."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from headtohead.comparison.dashboard.live_runs import LiveRuns
from headtohead.files import leases
from headtohead.files.atomic_write import replace_text
from headtohead.files.leases import LeaseLostError, Leases, checked_write
from headtohead.files.process_liveness import Owner
from headtohead.records import run_folder
from headtohead.records.metrics_file import MetricsFile
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.records.strict_json import RecordError
from waiting import PATIENCE, until

DEAD = json.dumps(asdict(Owner(pid=2**22 + 1, started="1", machine=Owner.this_process().machine)))
ELSEWHERE = json.dumps(asdict(Owner(pid=7, started="1", machine="another", host="node-7")))


def left_behind(path: Path, owner: str = DEAD) -> RunFolder:
    """A run whose process logged 6 steps, kept a checkpoint of step 3 and was killed."""
    folder = RunFolder.create_at(path)
    folder.write_record(RunRecord(id=folder.id))
    log(folder, range(1, 7), 1.0)
    folder.release()
    (folder.path / "leases" / "writer.1").write_text(owner)
    return folder


def log(folder: RunFolder, steps: range, value: float) -> None:
    for step in steps:
        folder.log(Progress(step), {"train/loss": value})


def logged(folder: RunFolder) -> list[tuple[int, float]]:
    """Every line, doubled ones too."""
    return [(progress.step, value) for progress, _, value in folder.metrics_file._lines()]


MOMENT = 0.03
"""Seconds for a thread to come to its next step, unless the other has what it waits for."""


class OfEachThread(dict):
    """The leases that a process holds, for threads that stand for processes."""

    def __init__(self) -> None:
        super().__init__()
        self._own = threading.local()

    def _held(self) -> dict:
        return self._own.__dict__.setdefault("held", {})

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held())

    def __setitem__(self, key: Any, value: Any) -> None:
        self._held()[key] = value

    def pop(self, key: Any, *default: Any) -> Any:
        return self._held().pop(key, *default)


class Schedule:
    """Lets threads go on one seam at a time, in a given order; one that waits for another is passed over."""

    def __init__(self, *actions: Callable[[], None]) -> None:
        self.errors: list[Exception | None] = [None] * len(actions)
        self._go = [threading.Semaphore(0) for _ in actions]
        self._paused = [threading.Event() for _ in actions]
        self._threads = [
            threading.Thread(target=self._run, args=(number, action)) for number, action in enumerate(actions)
        ]
        self._numbers: dict[int, int] = {}

    def _run(self, number: int, action: Callable[[], None]) -> None:
        self._numbers[threading.get_ident()] = number
        self.seam()
        try:
            action()
        except (RecordError, LeaseLostError) as error:
            self.errors[number] = error
        finally:
            del self._numbers[threading.get_ident()]
            self._go[number].release()
            self._paused[number].set()

    def seam(self) -> None:
        number = self._numbers.get(threading.get_ident())
        if number is not None:
            self._paused[number].set()
            self._go[number].acquire()

    def play(self, order: list[int]) -> None:
        for thread in self._threads:
            thread.start()
        for number in order:
            self._paused[number].wait(MOMENT)
            self._paused[number].clear()
            self._go[number].release()
        for number, thread in enumerate(self._threads):
            for _ in range(100):
                self._go[number].release()
            thread.join(PATIENCE)
            assert not thread.is_alive()


def order_of(draw_seed: int, first: int, second: int) -> list[int]:
    """One of the ways to shuffle the steps of two into one order; as many draws as there are ways give each once."""
    ways = list(combinations(range(first + second), first))
    taken = ways[draw_seed * 41 % len(ways)]
    return [0 if position in taken else 1 for position in range(first + second)]


@pytest.fixture
def schedule(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Schedule]:
    """Makes schedules whose seams are the steps of claiming and of writing."""
    current: list[Schedule] = []
    monkeypatch.setattr(leases, "_HELD", OfEachThread())

    def at_seam(owner: Any, name: str, *, after: bool = False) -> None:
        whole = getattr(owner, name)

        def paused(*arguments: Any, **options: Any) -> Any:
            if current and not after:
                current[-1].seam()
            result = whole(*arguments, **options)
            if current and after:
                current[-1].seam()
            return result

        monkeypatch.setattr(owner, name, paused)

    for name in ("last", "_is_free", "_create"):
        at_seam(Leases, name)
    at_seam(MetricsFile, "drop_after")
    at_seam(os, "fsync")  # after a new file is written, before it is renamed
    at_seam(leases.Lease, "check", after=True)  # before the write that it allows

    def make(*actions: Callable[[], None]) -> Schedule:
        current.append(Schedule(*actions))
        return current[-1]

    return make


def test_of_two_that_resume_one_wins_in_every_order(
    tmp_path: Path, schedule: Callable[..., Schedule], draw_seed: int
) -> None:
    folder = left_behind(tmp_path / "run")

    def go_on(value: float) -> None:
        log(RunFolder.resume(folder.path, step=3), range(4, 9), value)

    both = schedule(lambda: go_on(2.0), lambda: go_on(3.0))
    both.play(order_of(draw_seed, 4, 4))
    assert sorted(error is None for error in both.errors) == [False, True], both.errors
    won = 2.0 if both.errors[0] is None else 3.0
    assert logged(folder) == [(step, 1.0) for step in (1, 2, 3)] + [(step, won) for step in range(4, 9)]


def test_whoever_is_taken_over_writes_nothing_after_it_in_every_order(
    tmp_path: Path, schedule: Callable[..., Schedule], draw_seed: int
) -> None:
    folder = left_behind(tmp_path / "run")

    def write_on() -> None:
        run = RunFolder.resume(folder.path, step=3)
        log(run, range(4, 6), 2.0)
        replace_text(folder.path / "best.ckpt", "2")
        log(run, range(6, 9), 2.0)

    def take_over() -> None:
        run = RunFolder.resume(folder.path, step=3, take_over=True)
        log(run, range(4, 9), 3.0)
        replace_text(folder.path / "best.ckpt", "3")

    both = schedule(write_on, take_over)
    both.play(order_of(draw_seed, 6, 4))
    first, second = both.errors
    assert second is None or "--take-over" in str(second), "another was quicker by a moment"
    assert first is None or "was taken over by process" in str(first) or "is being written by" in str(first)
    won = 2.0 if second else 3.0
    assert logged(folder) == [(step, 1.0) for step in (1, 2, 3)] + [(step, won) for step in range(4, 9)]
    assert (folder.path / "best.ckpt").read_text() == f"{won:.0f}"


def _resume_all(paths: list[Path], number: int, start: Any, message: Any) -> None:
    won = []
    for path in paths:
        start.wait()
        try:
            log(RunFolder.resume(path, step=3), range(4, 40), float(number))
            won.append(path.name)
        except RecordError as error:
            assert "is being written by process" in str(error)
    start.wait()  # so that no winner dies before the other has tried
    message.put((number, won))


@pytest.mark.process
def test_of_two_processes_that_race_to_resume_exactly_one_wins_each_time(tmp_path: Path) -> None:
    paths = [left_behind(tmp_path / f"run{number}").path for number in range(20)]
    context = multiprocessing.get_context("fork")
    message, start = context.Queue(), context.Barrier(2)
    processes = [context.Process(target=_resume_all, args=(paths, number, start, message)) for number in (2, 3)]
    for process in processes:
        process.start()
    won = dict(message.get(timeout=PATIENCE) for _ in processes)
    for process in processes:
        process.join(timeout=PATIENCE)
    assert sorted(won[2] + won[3]) == sorted(path.name for path in paths)
    for path in paths:
        winner = 2.0 if path.name in won[2] else 3.0
        assert logged(RunFolder(path)) == [(s, 1.0) for s in (1, 2, 3)] + [(s, winner) for s in range(4, 40)]


def test_a_live_process_is_live_whatever_the_record_says(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, name="tiny")
    for status in ("running", "finished", "interrupted"):
        folder.write_record(RunRecord(id=folder.id, status=status))
        assert folder.is_live()
        with pytest.raises(RecordError, match=rf"is being written by process {os.getpid()} on \S+ \(last sign of life"):
            RunFolder.resume(folder.path)
    folder.release()
    assert not folder.is_live()
    RunFolder.resume(folder.path).release()


def test_a_machine_that_rebooted_is_waited_for_and_not_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also with a clock that was set back by a year since."""
    folder = left_behind(tmp_path / "run", ELSEWHERE)
    os.utime(folder.path / "leases" / "writer.1", (time.time() + 3e7,) * 2)
    for module in (leases, run_folder):
        monkeypatch.setattr(module, "STALE_SECONDS", 0.3)
    began = time.monotonic()
    RunFolder.resume(folder.path, step=3).release()
    assert 0.3 <= time.monotonic() - began < leases.STALE_SECONDS + 30
    assert "was last written by process 7 on node-7 (last sign of life" in caplog.text and "--take-over" in caplog.text


def test_take_over_does_not_wait(tmp_path: Path) -> None:
    folder = left_behind(tmp_path / "run", ELSEWHERE)
    began = time.monotonic()
    RunFolder.resume(folder.path, take_over=True).release()
    assert time.monotonic() - began < leases.STALE_SECONDS


def test_a_lease_is_refreshed_while_its_process_is_busy_with_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(leases, "_beating", [])
    folder = RunFolder.create(tmp_path, name="tiny")
    lease = folder.path / "leases" / "writer.1"
    os.utime(lease, (0, 0))
    until(lambda: lease.stat().st_mtime > 0)  # a long step
    assert all(thread.daemon for thread in leases._beating), "the thread keeps no process alive"


def test_a_fork_holds_nothing_of_its_parent(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, name="tiny")
    held = list(leases._HELD)
    try:
        leases._forget()
        assert not list(leases._HELD) and not leases._beating
    finally:
        leases._HELD.update(dict.fromkeys(held))


def test_readers_neither_claim_nor_touch_a_run(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, name="tiny")
    folder.write_record(RunRecord(id=folder.id))
    log(folder, range(1, 4), 1.0)

    def state() -> dict[Path, int]:
        """Return when each file was written, but for the lease, which this process renews as the writer."""
        return {file: file.stat().st_mtime_ns for file in folder.path.rglob("*") if file.parent.name != "leases"}

    before = state()
    assert [record.status for record in LiveRuns(tmp_path).records(tmp_path)] == ["running"]
    assert state() == before
    log(folder, range(4, 6), 1.0)


def test_a_write_outside_any_run_needs_no_lease(tmp_path: Path) -> None:
    with checked_write(tmp_path / "report.html"):
        pass
