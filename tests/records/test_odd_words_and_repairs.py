"""Tags and notes are text that one can see, and one repair that cannot be made stops no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.errors import UsageError
from headtohead.files import leases
from headtohead.files.disk_operations import OutOfDisk
from headtohead.records.keeping.changes import note, tag
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import METRICS, RunFolder, load_run

NO_TEXT = "\udcff"
"""A byte of a command line that is no UTF-8, as Python hands it on."""


def write_run(path: Path, **fields: Any) -> None:
    run = RunFolder.create_at(path)
    run.write_record(RunRecord(id=run.id, status="finished", **fields))
    run.release()


@pytest.mark.parametrize("odd", ["", " ", "\t", "two\nlines", "\x1b[31mred", "\u2028", NO_TEXT])
def test_a_tag_that_nobody_can_see_is_refused_and_taken_away_where_it_is(tmp_path: Path, odd: str) -> None:
    write_run(tmp_path / "run", tags=["old", "a\nb"])
    before = (tmp_path / "run" / "record.json").read_bytes()
    with pytest.raises(UsageError, match="is not a tag"):
        tag(tmp_path / "run", add=["good", odd])
    assert (tmp_path / "run" / "record.json").read_bytes() == before
    assert tag(tmp_path / "run", add=["ü b", '"q"', "a=b", "<x>"], remove=["a\nb"]) == [
        "old",
        "ü b",
        '"q"',
        "a=b",
        "<x>",
    ]


def test_blanks_around_tags_do_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", tags=["old", " mine "])
    assert main(["runs", "tag", str(tmp_path), "--add", " paper, ,final ", "--remove", "mine,", "--yes"]) == 0
    assert load_run(tmp_path / "run").tags == ["old", "paper", "final"]
    assert main(["runs", "tag", str(tmp_path), "--add", " , ", "--yes"]) == 2
    assert "no tag is named" in capsys.readouterr().err


def test_a_note_that_is_no_text_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run", notes="old")
    with pytest.raises(UsageError, match="not text in UTF-8"):
        note(tmp_path / "run", f"words {NO_TEXT}")
    assert load_run(tmp_path / "run").notes == "old"


def test_a_repair_that_cannot_be_made_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        write_run(tmp_path / name)
        (tmp_path / name / METRICS).write_text("step,epoch,tokens,flops,seconds,name,value\n1,2\n")
    create = leases.system.create

    def create_elsewhere(path: Path, text: str) -> bool:
        if path.is_relative_to(tmp_path / "a"):
            raise OutOfDisk(path)
        return create(path, text)

    monkeypatch.setattr(leases.system, "create", create_elsewhere)
    assert main(["runs", "verify", str(tmp_path), "--repair"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "a/metrics.csv has 1 damaged line(s), and cannot be repaired: the disk is full" in lines[0]
    assert [line.startswith("repaired: ") for line in lines[1:3]] == [True, True] and "1 fault, 2 repaired" in lines[3]
