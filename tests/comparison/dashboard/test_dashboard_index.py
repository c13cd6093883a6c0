"""The index tells what changed, and reads nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.comparison.dashboard.run_index import RunIndex
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import DIED, RunFolder
from served_runs import train, written_run


def restless(root: Path) -> RunIndex:
    """Looks at the disk whenever it is asked."""
    return RunIndex(root, shortest=0, share=0)


def test_only_what_changed_is_told_again(tmp_path: Path) -> None:
    moving, still = written_run(tmp_path), written_run(tmp_path, status="finished")
    index = restless(tmp_path)
    first = index.changes("")
    assert set(first["changed"]) == {f"some/{moving.id}", f"some/{still.id}"}
    train(moving, range(4, 5))
    second = index.changes(first["now"])
    assert list(second["changed"]) == [f"some/{moving.id}"]
    news = second["changed"][f"some/{moving.id}"]
    assert news["progress"]["step"] == 4
    assert news["latest"] == {"train/loss": 1.0}
    assert "config" not in news
    assert index.changes(second["now"])["changed"] == {}


def test_a_record_is_read_once_until_it_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written_run(tmp_path)
    read: list[str] = []
    plain = RunFolder.read_record_as_written

    def counted(self: RunFolder) -> RunRecord:
        read.append(self.id)
        return plain(self)

    monkeypatch.setattr(RunFolder, "read_record_as_written", counted)
    index = restless(tmp_path)
    now = index.changes("")["now"]
    train(folder, range(4, 6))
    now = index.changes(now)["now"]
    assert len(read) == 1
    folder.write_record(RunRecord(id=folder.id, name="tiny", status="diverged", reason="loss is not finite"))
    news = index.changes(now)["changed"][f"some/{folder.id}"]
    assert len(read) == 2
    assert (news["status"], news["reason"]) == ("diverged", "loss is not finite")


def test_a_page_of_an_earlier_server_is_told_everything(tmp_path: Path) -> None:
    written_run(tmp_path)
    before = restless(tmp_path).changes("")["now"]
    assert len(restless(tmp_path).changes(before)["changed"]) == 1


def test_a_running_record_without_its_process_is_interrupted(tmp_path: Path) -> None:
    folder = written_run(tmp_path)
    folder.mark_abandoned()
    message = RunIndex(tmp_path).changes("")["changed"][f"some/{folder.id}"]
    assert (message["status"], message["reason"]) == ("interrupted", DIED)
    assert message["progress"]["step"] == 3


def test_an_unreadable_record_says_why(tmp_path: Path) -> None:
    folder = written_run(tmp_path)
    (folder.path / "record.json").write_text("{")
    message = RunIndex(tmp_path).changes("")["changed"][f"some/{folder.id}"]
    assert message["status"] == "unreadable"
    assert "is not valid JSON" in message["reason"]


def test_a_record_that_lies_elsewhere_is_not_read(tmp_path: Path) -> None:
    folder = written_run(tmp_path / "outside", name="secret")
    link = tmp_path / "shown" / "some" / folder.id
    link.mkdir(parents=True)
    (link / "record.json").symlink_to(folder.path / "record.json")
    (link / "metrics.csv").symlink_to(folder.path / "metrics.csv")
    message = RunIndex(tmp_path / "shown").changes("")["changed"][f"some/{folder.id}"]
    assert message["status"] == "unreadable"
    assert message["latest"] == {}
    assert message["config"] == {}


def test_what_is_no_number_is_told_as_text(tmp_path: Path) -> None:
    folder = written_run(tmp_path, metrics={"test": {"loss": float("nan")}}, status="diverged")
    assert RunIndex(tmp_path).changes("")["changed"][f"some/{folder.id}"]["results"] == {"test/loss": "NaN"}
