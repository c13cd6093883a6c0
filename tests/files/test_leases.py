"""Leases: one holder at a time, whoever dies."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import asdict
from pathlib import Path

import pytest

from headtohead.files.leases import Leases
from headtohead.files.process_liveness import Owner
from waiting import PATIENCE

OF_ANOTHER_MACHINE = json.dumps(asdict(Owner(pid=1, started="1", machine="elsewhere")))
OF_A_DEAD_PROCESS = json.dumps(asdict(Owner(pid=2**22 + 1, started="1", machine=Owner.this_process().machine)))


def test_a_run_is_leased_once_until_it_is_given_back(tmp_path: Path) -> None:
    first, second = Leases(tmp_path), Leases(tmp_path)
    lease = first.take("a")
    assert lease is not None and lease.is_held()
    assert second.take("a") is None and second.holder("a") is not None and second.holder("b") is None
    lease.release()
    assert second.holder("a") is None and second.take("a") is not None


def test_the_lease_of_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.1").write_text(OF_A_DEAD_PROCESS)
    taken = Leases(tmp_path).take("a")
    assert taken is not None and taken.path.name == "a.2"


@pytest.mark.parametrize("text", [OF_ANOTHER_MACHINE, ""], ids=["another machine", "not yet written"])
def test_an_unseen_owner_is_dead_once_it_was_silent_for_long_by_our_own_clock(tmp_path: Path, text: str) -> None:
    now = 0.0
    (tmp_path / "a.1").write_text(text)
    leases = Leases(tmp_path, stale_seconds=10, clock=lambda: now)
    assert leases.take("a") is None
    now = 9.0
    assert leases.take("a") is None
    now = 10.0
    assert leases.take("a") is not None


@pytest.mark.parametrize("damage", ["nested", "digits", "a folder", "a pipe", "no text"])
def test_a_damaged_lease_names_no_owner_and_is_taken_over(tmp_path: Path, damage: str) -> None:
    import os

    file = tmp_path / "a.1"
    if damage == "a folder":
        file.mkdir()
    elif damage == "a pipe":
        os.mkfifo(file)
    else:
        file.write_bytes({"nested": b"[" * 100_000, "digits": b"9" * 5000, "no text": b"\xff\xfe\x00"}[damage])
    leases = Leases(tmp_path)
    holder = leases.holder("a")
    assert holder is not None and holder.owner is None
    assert leases.take("a", take_over=True) is not None


def test_an_unseen_owner_that_beats_is_alive(tmp_path: Path) -> None:
    import os

    now, file = 0.0, tmp_path / "a.1"
    file.write_text(OF_ANOTHER_MACHINE)
    leases = Leases(tmp_path, stale_seconds=10, clock=lambda: now)
    for beat in range(5):
        os.utime(file, (1e9 + beat, 1e9 + beat))
        assert leases.take("a") is None
        now += 9


def test_a_holder_learns_that_it_was_taken_for_dead(tmp_path: Path) -> None:
    lease = Leases(tmp_path).take("a")
    assert lease is not None
    lease.path.write_text(OF_A_DEAD_PROCESS)
    assert Leases(tmp_path).take("a") is not None
    assert not lease.is_held()


def test_a_run_whose_id_begins_like_another_is_another(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    assert leases.take("ab") is not None and leases.take("a") is not None and leases.take("ab.c") is not None


def _take_all(folder: Path, taken: multiprocessing.Queue[list[str]], start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    leases = Leases(folder)
    taken.put([run for run in map(str, range(100)) if leases.take(run) is not None])
    start.wait()  # type: ignore[attr-defined]


@pytest.mark.process
def test_of_many_processes_one_gets_each_dead_lease(tmp_path: Path) -> None:
    for run in range(100):
        (tmp_path / f"{run}.1").write_text(OF_A_DEAD_PROCESS)
    context = multiprocessing.get_context("fork")
    taken, start = context.Queue(), context.Barrier(4)
    processes = [context.Process(target=_take_all, args=(tmp_path, taken, start)) for _ in range(4)]
    for process in processes:
        process.start()
    runs = [run for _ in processes for run in taken.get(timeout=PATIENCE)]
    for process in processes:
        process.join(timeout=PATIENCE)
    assert sorted(runs, key=int) == [str(run) for run in range(100)]
