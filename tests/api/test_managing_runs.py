"""Runs that are over are changed, verified, uploaded and shown on a page, from Python."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.cli import runs as command
from headtohead.errors import UsageError
from headtohead.records.keeping import verify
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import METRICS, RunFolder


def write_run(outputs: Path, name: str, status: str = "finished") -> RunFolder:
    run = RunFolder.create_at(outputs / name)
    run.write_record(RunRecord(id=run.id, name=name, status=status, metrics={"test": {"loss": float(len(name))}}))
    for kind in ("best", "last"):
        run.checkpoints.mkdir(exist_ok=True)
        (run.checkpoints / f"{kind}.ckpt").write_bytes(bytes(1000))
    run.release()
    return run


def write_record(path: Path, status: str) -> None:
    run = RunFolder.open(path)
    run.claim()
    run.write_record(replace(run.read_record_as_written(), status=status, path=run.path))
    run.release()


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for name in ("a", "bb", "ccc"):
        write_run(tmp_path, name)
    write_run(tmp_path, "failed", status="failed")
    return tmp_path


def test_runs_that_a_filter_chooses_are_tagged_noted_and_deleted(outputs: Path) -> None:
    h2h.runs(outputs, where="status=finished").tag(add=["paper", "old"])
    h2h.runs(outputs, where="tags=paper name=a").tag(add=["final"], remove=["old"])
    h2h.runs(outputs, where="name=a").note("the best")
    best = h2h.read_record(outputs / "a")
    assert best.tags == ["paper", "final"] and best.notes == "the best"
    changed = h2h.runs(outputs, where="status=failed").delete()
    assert repr(changed).splitlines()[0] == "delete: 1 run, 0.0 MB saved" and changed.changed == [outputs / "failed"]
    assert {run.name for run in h2h.runs(outputs)} == {"a", "bb", "ccc"}
    with pytest.raises(UsageError, match=r"no tag is named: add=NAME or remove=NAME"):
        h2h.runs(outputs).tag()
    with pytest.raises(UsageError, match="is not a tag"):
        h2h.runs(outputs).tag(add=[" "])


def test_a_list_that_is_old_removes_nothing_of_a_run_that_went_on(outputs: Path) -> None:
    listed = h2h.runs(outputs)
    write_record(outputs / "a", "interrupted")
    write_record(outputs / "failed", "finished")
    pruned = listed.prune(keep="none")
    assert {path.parent.parent.name for path in pruned.changed} == {"bb", "ccc"}
    assert all("may be resumed" in why for why in pruned.left_alone.values()) and len(pruned.left_alone) == 2
    deleted = listed.delete()
    assert {path.name for path in deleted.left_alone} == {"a", "failed"} and not (outputs / "bb").exists()
    assert "it was failed when it was listed, and is finished" in deleted.left_alone[outputs / "failed"]


def test_a_part_of_a_list_is_a_list_of_runs(outputs: Path) -> None:
    listed = h2h.runs(outputs, sort="name")
    listed[1:3].note("words")
    assert [h2h.read_record(path).notes for path in listed.paths] == [None, "words", "words", None]


def test_a_run_that_trains_is_left_alone_with_the_reason(outputs: Path) -> None:
    training = RunFolder.open(outputs / "bb")
    training.claim()
    changed = h2h.runs(outputs).note("words")
    assert set(changed.left_alone) == {outputs / "bb"} and "is being trained" in changed.left_alone[outputs / "bb"]
    assert len(changed.changed) == 3 and h2h.read_record(outputs / "bb").notes is None
    training.release()


def test_archives_are_read_and_restored(outputs: Path) -> None:
    archived = h2h.runs(outputs, where="name=a").archive()
    assert archived.bytes_saved is not None and "MB saved" in archived.title
    assert not list((outputs / "a").rglob("*.ckpt")) and len(h2h.runs(outputs)) == 4
    h2h.runs(outputs, where="name=a").restore()
    assert len(list((outputs / "a").rglob("*.ckpt"))) == 2


def test_pruning_removes_what_it_says_that_it_would(outputs: Path) -> None:
    chosen = h2h.runs(outputs)
    unneeded = chosen.unneeded(keep="best", top=2)
    pruned = chosen.prune(keep="best", top=2)
    assert sorted(pruned.changed) == sorted(unneeded) and pruned.bytes_saved == 1000 * len(unneeded)
    left = {str(file.relative_to(outputs)) for file in outputs.rglob("*.ckpt")}
    of_failed = {f"failed/checkpoints/{kind}.ckpt" for kind in ("best", "last")}
    assert left == {"a/checkpoints/best.ckpt", "bb/checkpoints/best.ckpt", *of_failed}
    with pytest.raises(UsageError, match=r"^top=0 must be"):
        chosen.prune(top=0)


def test_faults_are_listed_and_repaired(outputs: Path) -> None:
    for file in outputs.rglob("*.ckpt"):
        file.unlink()
    (outputs / "a" / METRICS).write_text("step,epoch,tokens,flops,seconds,name,value\n1,2\n")
    (outputs / "bb" / "record.json").write_text("{")
    seen = h2h.verify_runs(outputs)
    assert {fault.path.parent.name for fault in seen.faults} == {"a", "bb"} and not seen.repaired
    repaired = h2h.verify_runs([outputs], repair=True)
    assert [fault.path for fault in repaired.repaired] == [outputs / "a" / METRICS]
    assert {fault.path.parent.name for fault in h2h.verify_runs(outputs).faults} == {"bb"}
    with pytest.raises(UsageError, match="is not a folder"):
        h2h.verify_runs(outputs / "nowhere")


def test_a_fault_that_cannot_be_repaired_has_its_reason_in_its_row(
    outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "bb"):
        (outputs / name / METRICS).write_text("step,epoch,tokens,flops,seconds,name,value\n1,2\n")

    def refuse(fault: verify.Fault) -> None:
        if fault.path.parent.name == "a":
            raise OSError(30, "Read-only file system")

    monkeypatch.setattr(verify, "repair", refuse)
    verified = h2h.verify_runs([outputs / "a", outputs / "bb"], repair=True)
    reasons = {row["path"]: (row["repaired"], row["reason"]) for row in verified.as_rows()}
    assert reasons[str(outputs / "a" / METRICS)] == (False, "Read-only file system")
    assert reasons[str(outputs / "bb" / METRICS)] == (True, "")


def test_the_command_shows_each_fault_before_it_looks_for_the_next(
    outputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = outputs / "a" / METRICS
    metrics.write_text("step,epoch,tokens,flops,seconds,name,value\n1,2\n")

    def first_then_stopped(root: Path) -> Iterator[verify.Fault]:
        yield next(verify_below(root / "a"))
        assert capsys.readouterr().out == f"repaired: {metrics} has 1 damaged line(s)\n"
        raise KeyboardInterrupt

    verify_below = verify.faults_below
    monkeypatch.setattr(verify, "faults_below", first_then_stopped)
    with pytest.raises(KeyboardInterrupt):
        command.run(["verify", str(outputs), "--repair"])
    assert metrics.read_text().count("\n") == 1


def test_where_nothing_waits_nothing_is_uploaded(outputs: Path) -> None:
    synced = h2h.sync(outputs)
    assert synced.title == "0 runs uploaded, 0 there already" and not synced.has_failed
    with pytest.raises(UsageError, match="does not exist"):
        h2h.sync(outputs / "nowhere")


def test_a_dashboard_is_served_until_it_is_closed(outputs: Path) -> None:
    with h2h.dashboard(outputs) as served:
        assert served.address in repr(served) and served.address in served._repr_html_()
        with urllib.request.urlopen(served.address, timeout=20) as answer:
            assert answer.status == 200
        port = int(served.address.rstrip("/").rpartition(":")[2])
        with pytest.raises(ValueError, match=rf"port={port} is in use: port=0 takes any free one"):
            h2h.dashboard(outputs, port=port)
    assert not served.thread.is_alive()
    with pytest.raises(ValueError, match="is not a folder"):
        h2h.dashboard(outputs / "nowhere")


@pytest.mark.slow
def test_the_schema_is_one_of_json() -> None:
    assert json.loads(json.dumps(h2h.schema()))["$schema"].startswith("http")
