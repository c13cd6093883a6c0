"""Runs that are over are tagged, noted, archived, deleted and verified; what trains is never touched."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.cli import main
from headtohead.errors import UsageError
from headtohead.files.safe_read import DamagedFile
from headtohead.records.index.run_index import RunIndex
from headtohead.records.keeping.archive import ARCHIVE, archive, restore
from headtohead.records.keeping.changes import DELETED, PrunePolicy, delete, note, tag, unneeded
from headtohead.records.keeping.verify import faults_below, repair
from headtohead.records.record import Progress, RunRecord
from headtohead.records.row_sums import read_rows, write_rows
from headtohead.records.run_folder import RunFolder, load_run
from headtohead.records.run_query import runs

CHANGES = {
    "tag": lambda path: tag(path, add=["paper"]), "note": lambda path: note(path, "words"), "archive": archive,
    "delete": delete,
}  # fmt: skip


def running(outputs: Path, name: str = "run") -> RunFolder:
    run = RunFolder.create(outputs, name=name)
    run.write_record(RunRecord(id=run.id, name=name))
    run.log(Progress(1), {"train/loss": 2.0})
    run.log(Progress(2), {"train/loss": 1.0, "validation/loss": 1.5})
    return run


def finished(outputs: Path, name: str = "run") -> RunFolder:
    run = running(outputs, name)
    run.write_record(RunRecord(id=run.id, name=name, status="finished", tags=["old"], metrics={"test": {"loss": 1.0}}))
    run.checkpoints.mkdir()
    np.savez(run.checkpoints / "weights.npz", weights=np.zeros(50_000))
    (run.path / "tables" / "test").mkdir(parents=True)
    (run.path / "tables" / "test" / "samples.csv").write_text("a,b\n" * 500)
    columns = {"row": np.arange(4), "loss": np.ones(4), "targets": np.ones(4)}
    write_rows(run.path, "test", columns, {"loss": ("loss", "targets")})
    run.release()
    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.parent.name != "leases"
    }


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_that_trains_is_refused_and_stays_as_it_is(change: str, tmp_path: Path) -> None:
    run = running(tmp_path)
    before = contents(run.path)
    with pytest.raises(UsageError, match="is being trained"):
        CHANGES[change](run.path)
    assert contents(run.path) == before
    run.log(Progress(3), {"train/loss": 0.5})
    run.release()


def test_tags_and_notes_are_in_the_record(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert tag(run.path, add=["paper", "old"], remove=["none"]) == ["old", "paper"]
    assert tag(run.path, remove=["old"]) == ["paper"]
    note(run.path, "too high")
    record = load_run(run.path)
    assert (record.tags, record.notes, record.metrics) == (["paper"], "too high", {"test": {"loss": 1.0}})
    note(run.path, "")
    assert load_run(run.path).notes is None


def test_an_archived_run_is_read_as_before_and_comes_back_as_it_was(tmp_path: Path) -> None:
    run = finished(tmp_path)
    before, record = contents(run.path), load_run(run.path)
    assert archive(run.path) > 300_000
    assert not run.checkpoints.exists() and (run.path / ARCHIVE).is_file()
    assert load_run(run.path) == record
    assert run.metrics()["train/loss"].value == [2.0, 1.0]
    rows = read_rows(run.path, "test")
    assert rows is not None and len(rows.rows) == 4
    with RunIndex(tmp_path / "index") as index:
        assert list(index.records(tmp_path)) == [record]
    with pytest.raises(UsageError, match="archived already"):
        archive(run.path)
    assert restore(run.path) == 2
    assert contents(run.path) == before


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_a_damaged_archive_is_told_and_nothing_of_it_restored(share: float, tmp_path: Path) -> None:
    run = finished(tmp_path)
    archive(run.path)
    file = run.path / ARCHIVE
    content = bytearray(file.read_bytes())
    content[int(len(content) * share)] ^= 0xFF
    file.write_bytes(content)
    assert [fault.path for fault in faults_below(tmp_path)] == [file]
    with pytest.raises(DamagedFile):
        restore(run.path)
    assert file.is_file() and not run.checkpoints.exists()


def test_verify_names_what_is_wrong_and_repairs_what_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = finished(tmp_path), finished(tmp_path, "other")
    assert list(faults_below(tmp_path)) == []
    alive = running(tmp_path, "alive")
    (alive.path / ".record.json.x.part").write_text("")
    with run.metrics_file.path.open("a") as file:
        file.write("3,0,0,0,0,train/lo")
    unfinished, orphan = run.path / ".best.ckpt.abc.part", tmp_path / "default" / "begun"
    leaving = tmp_path / f"{DELETED}x"
    unfinished.write_text("half")
    (orphan / "leases").mkdir(parents=True)
    (orphan / "config.yaml").write_text("")
    (leaving / "tables").mkdir(parents=True)
    weights = other.checkpoints / "weights.npz"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 0xFF
    weights.write_bytes(content)
    long_ago = time.time() - 7200
    for path in (unfinished, orphan, leaving, alive.path / ".record.json.x.part"):
        os.utime(path, (long_ago, long_ago))
    faults = {fault.path: fault.can_repair for fault in faults_below(tmp_path)}
    assert faults == {
        run.metrics_file.path: True, unfinished: True, orphan: True, leaving: True, weights: False,
    }  # fmt: skip
    assert main(["runs", "verify", str(tmp_path), "--repair"]) == 1
    assert "1 fault, 4 repaired" in capsys.readouterr().out
    assert [fault.path for fault in faults_below(tmp_path)] == [weights]
    assert run.metrics()["train/loss"].value == [2.0, 1.0]
    alive.release()


def test_a_repair_keeps_every_whole_line(tmp_path: Path) -> None:
    run = finished(tmp_path)
    before = run.metrics_file.path.read_text()
    run.metrics_file.path.write_text(before.replace("\n2,", "\nzeros \0\0\n2,", 1) + "torn")
    (fault,) = faults_below(tmp_path)
    repair(fault)
    assert run.metrics_file.path.read_text() == before


def test_the_command_asks_first_and_leaves_what_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done, alive = finished(tmp_path, "done"), running(tmp_path, "alive")
    assert main(["runs", "delete", str(tmp_path)]) == 2
    assert "--yes confirms it" in capsys.readouterr().err
    assert done.path.is_dir()
    assert main(["runs", "tag", str(tmp_path), "--where", "done", "--add", "paper", "--yes"]) == 0
    assert load_run(done.path).tags == ["old", "paper"]
    assert main(["runs", "archive", str(tmp_path), "--where", "status=finished", "--yes"]) == 0
    assert "archive: 1 run, 0.4 MB saved" in capsys.readouterr().out
    assert main(["runs", "delete", str(tmp_path), "--yes"]) == 1
    streams = capsys.readouterr()
    assert "delete: 1 run" in streams.out and "is being trained" in streams.err
    assert not done.path.exists() and alive.path.is_dir()
    assert main(["runs", "erase", str(tmp_path)]) == 2
    alive.release()


def test_checkpoints_stay_by_kind_for_the_best_runs_and_as_far_as_the_disk_goes(tmp_path: Path) -> None:
    for name, loss, status in (
        ("b", 2.0, "finished"),
        ("a", 1.0, "finished"),
        ("c", 3.0, "finished"),
        ("d", 0.0, "failed"),
    ):
        run = RunFolder.create_at(tmp_path / name)
        run.write_record(RunRecord(id=name, name=name, status=status, metrics={"test": {"loss": loss}}))  # type: ignore[arg-type]
        run.checkpoints.mkdir()
        for kind, size in (("best", 100), ("last", 300)):
            (run.checkpoints / f"{kind}.ckpt").write_bytes(b"x" * size)
        run.release()

    def removed(**policy: Any) -> list[str]:
        files = unneeded(runs(tmp_path), PrunePolicy(**policy))
        return sorted(
            str(file.relative_to(tmp_path)).replace("/checkpoints/", " ").removesuffix(".ckpt") for file in files
        )

    assert removed(keep="best") == ["a last", "b last", "c last"]
    assert removed(keep="last", top=1) == ["a best", "b best", "b last", "c best", "c last"]
    assert removed(keep="none") == [f"{name} {kind}" for name in "abc" for kind in ("best", "last")]
    assert removed(keep="best", most_bytes=250) == ["a last", "b last", "c best", "c last"]
    assert main(["runs", "prune", str(tmp_path), "--keep", "best", "--top", "2", "--yes"]) == 0
    left = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.ckpt"))
    assert left == [f"{name}/checkpoints/best.ckpt" for name in "ab"] + [
        f"d/checkpoints/{k}.ckpt" for k in ("best", "last")
    ]


def test_restoring_writes_nothing_where_a_link_of_the_run_leads(tmp_path: Path) -> None:
    run = finished(tmp_path / "runs")
    archive(run.path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run.path / "tables").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="leads out of the run by a link"):
        restore(run.path)
    assert not list(elsewhere.rglob("*")) and (run.path / ARCHIVE).is_file()
