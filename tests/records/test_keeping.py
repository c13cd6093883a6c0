"""Runs that are over are tagged, noted, archived, deleted and verified; what trains is never touched."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.cli import main
from headtohead.errors import UsageError
from headtohead.files import disk_operations, leases
from headtohead.files.atomic_write import remove_unfinished
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


def bundle(run: RunFolder, members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Write an archive such as a stranger can make, with the checksums that belong to it."""
    sums = {facts.name: hashlib.sha256(content).hexdigest() for facts, content in members}
    text, file = json.dumps(sums).encode(), run.path / ARCHIVE
    with tarfile.open(file, "w:gz", format=tarfile.PAX_FORMAT) as archived:
        for facts, content in [(tarfile.TarInfo("checksums.json"), text), *members]:
            facts.size = len(content)
            archived.addfile(facts, io.BytesIO(content))
    return file


def with_holes(name: str) -> tarfile.TarInfo:
    facts = tarfile.TarInfo(name)
    facts.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(10**15)}
    return facts


@pytest.mark.parametrize(
    "names",
    [
        ["record.json"], ["config.yaml"], ["metrics.csv"], ["tokenizer.json"], ["signatures.json"],
        ["leases/writer.9"], ["rows/test.npz"], [ARCHIVE], [".room.part"], [".hidden/a"],
        ["../a"], ["/tmp/a"], ["tables/../../a"], ["."], ["a", "a/b"], ["a/b/c", "a"],
        ["tables"], ["tables/test/samples.csv"], ["x" * 300], ["linked/a"],
    ],
    ids=lambda names: names[0][:20],
)  # fmt: skip
def test_a_stranger_s_archive_replaces_nothing(names: list[str], tmp_path: Path) -> None:
    run = finished(tmp_path / "outputs")
    (tmp_path / "outside").mkdir()
    (run.path / "linked").symlink_to(tmp_path / "outside")
    before = contents(tmp_path)
    file = bundle(run, [(tarfile.TarInfo(name), b"another") for name in names])
    with pytest.raises(UsageError, match=re.escape(str(run.path))):
        restore(run.path)
    assert {name: content for name, content in contents(tmp_path).items() if not name.endswith(ARCHIVE)} == before
    assert file.is_file()


def test_a_file_that_says_it_is_larger_than_all_disks_is_not_read(tmp_path: Path) -> None:
    run = finished(tmp_path)
    bundle(run, [(with_holes("big.bin"), b"")])
    with pytest.raises(DamagedFile, match="a file with holes"):
        restore(run.path)


class Killed(BaseException):
    """The end of a process in the middle of what it does."""


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process end before the disk operation of this number: what makes, moves and removes files."""
    left = iter(range(number))

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            if next(left, None) is None:
                raise Killed
            return original(*arguments, **named)

        return operation

    for owner, name in ((os, "unlink"), (os, "rmdir"), (os, "rename"), (os, "replace"), (os, "mkdir"), (os, "fsync")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))


@pytest.mark.parametrize("number", range(30))
def test_a_kill_at_any_moment_of_archiving_and_restoring_loses_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was done by then, the same call goes on, and the run comes back as it was."""
    run = finished(tmp_path)
    before = contents(run.path)
    for change in (archive, restore):
        with monkeypatch.context() as patch:
            killed_at(number, patch)
            with suppress(Killed):
                change(run.path)
        forget_leases(tmp_path)
        assert load_run(run.path).status == "finished"
        with suppress(UsageError):  # it was over before the kill
            change(run.path)
    remove_unfinished(run.path)
    assert contents(run.path) == before


@pytest.mark.parametrize("number", range(12))
def test_a_kill_at_any_moment_of_deleting_leaves_the_run_or_nothing_of_its_name(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = finished(tmp_path), finished(tmp_path, "other")
    before, others = contents(run.path), contents(other.path)
    with monkeypatch.context() as patch:
        killed_at(number, patch)
        with suppress(Killed):
            delete(run.path)
    forget_leases(tmp_path)
    assert not run.path.exists() or contents(run.path) == before
    if run.path.exists():
        delete(run.path)
    long_ago = time.time() - 7200
    for path in tmp_path.rglob(f"{DELETED}*"):
        os.utime(path, (long_ago, long_ago))
    for fault in list(faults_below(tmp_path)):
        repair(fault)
    assert not run.path.exists() and not list(tmp_path.rglob(f"{DELETED}*")) and contents(other.path) == others


def forget_leases(root: Path) -> None:
    """Let what the killed process held be free, as it is once a process is gone."""
    leases._HELD.clear()
    for file in root.rglob("writer.*"):
        file.write_text("given back")


def test_what_was_written_after_an_archive_is_not_replaced(tmp_path: Path) -> None:
    run = finished(tmp_path)
    archive(run.path)
    run.checkpoints.mkdir()
    (run.checkpoints / "weights.npz").write_bytes(b"newer")
    for change in (archive, restore):
        with pytest.raises(UsageError, match="was changed after"):
            change(run.path)
    assert (run.checkpoints / "weights.npz").read_bytes() == b"newer"


def test_a_copied_run_is_tagged_archived_and_deleted_as_itself(tmp_path: Path) -> None:
    run = finished(tmp_path)
    before, copied = contents(run.path), run.path.with_name("copied")
    shutil.copytree(run.path, copied)
    (tmp_path / "link").symlink_to(run.path)
    for words in (
        ["tag", "--add", "x"], ["note", "--text", "x"], ["archive"], ["restore"],
        ["prune", "--keep", "none"], ["delete"],
    ):  # fmt: skip
        assert main(["runs", words[0], str(copied), *words[1:], "--yes"]) == 0, words
        assert load_run(run.path).id == run.id and contents(run.path) == before
    assert not copied.exists()
    with pytest.raises(UsageError, match="is a link to"):
        delete(tmp_path / "link")
    assert contents(run.path) == before


def test_a_run_whose_name_was_deleted_before_is_deleted_too(tmp_path: Path) -> None:
    run = finished(tmp_path)
    (run.path.with_name(f"{DELETED}{run.id}") / "tables").mkdir(parents=True)
    delete(run.path)
    assert [path.name for path in run.path.parent.iterdir()] == [f"{DELETED}{run.id}"]


@pytest.mark.parametrize("name", ["x" * 255, "я" * 127, "🙂" * 63])
def test_a_run_of_the_longest_name_is_deleted(name: str, tmp_path: Path) -> None:
    run = finished(tmp_path)
    renamed = run.path.rename(run.path.with_name(name))
    delete(renamed)
    assert not list(run.path.parent.iterdir())


@pytest.mark.parametrize("action", [["tag", "--add", "x"], ["note", "--text", "x"], ["archive"], ["delete"], ["prune"]])
def test_a_run_that_cannot_be_changed_stops_no_other(
    action: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, trained, last = finished(tmp_path, "a"), finished(tmp_path, "b"), finished(tmp_path, "c")
    for run in (first, trained, last):
        (run.checkpoints / "last.ckpt").write_bytes(b"x")
    trained.claim()  # it is resumed, or evaluated
    before = contents(trained.path)
    damaged = RunFolder.create(tmp_path, name="damaged")
    (damaged.path / "record.json").write_text("[")
    damaged.release()
    assert main(["runs", action[0], str(tmp_path), *action[1:], "--yes"]) == 1
    assert f"{trained.path} is being trained" in capsys.readouterr().err
    assert contents(trained.path) == before
    for run in (first, last):
        assert not run.path.exists() or contents(run.path) != before
        assert action[0] == "delete" or load_run(run.path).status == "finished"
    trained.release()


def test_a_full_disk_is_emptied_by_deleting_and_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease is a file, which a full disk does not take: what frees space goes without, and what needs some does
    not."""
    first, second = finished(tmp_path, "a"), finished(tmp_path, "b")
    (second.checkpoints / "last.ckpt").write_bytes(b"x")

    class FullDisk(type(disk_operations.system)):  # type: ignore[misc]
        def write(self, handle: int, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk_operations, "system", FullDisk())
    before = contents(tmp_path)
    for change in ("tag", "note", "archive"):
        with pytest.raises(UsageError, match="the disk is full"):
            CHANGES[change](first.path)
    assert contents(tmp_path) == before
    assert main(["runs", "delete", str(first.path), "--yes"]) == 0 and not first.path.exists()
    assert main(["runs", "prune", str(second.path), "--keep", "none", "--yes"]) == 0
    assert not list(second.checkpoints.glob("*.ckpt")) and load_run(second.path).status == "finished"
