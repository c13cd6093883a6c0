"""A terminal obeys the characters that it reads: none that a stranger's file holds reaches it, whichever command
quotes it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import headtohead.cli
from headtohead.cli import main
from headtohead.records.record import Comparability, RunRecord
from headtohead.records.run_folder import RunFolder

OBEYED = "\x1b]0;title\x07\x1b[2J\x9b2J\x00\r\x7f\u202e\u2066"
"""Texts that set the title, clear the screen, overwrite the line and turn what follows."""
NAME = f"one{OBEYED}two"
COMMANDS = (
    ("list", "runs", "outputs"),
    ("list", "runs", "outputs", "--where", f"name={NAME}"),
    ("compare", "outputs"),
    ("compare", "outputs", "--against", NAME),
    ("compare", "outputs", "--latex"),
    ("compare", "outputs", "--metric", NAME),
    ("runs", "verify", "outputs"),
    ("runs", "tag", "outputs", "--add", "x"),
    ("evaluate", "outputs/default/run-1"),
    ("generate", "outputs/default/run-1", "--prompt", "a"),
    ("study", NAME, "--plan"),
    ("train", f"resume_from={NAME}"),
    ("train", f"model={NAME}"),
    (NAME,),
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Let the working folder hold a stranger's runs, and both streams be terminals."""
    del capsys  # its streams stand in the place of the real ones from here on
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        run = RunFolder.create_at(Path("outputs/default") / f"run-{number}")
        record = RunRecord(id=run.id, name=NAME, notes=NAME, tags=[NAME], status="finished", reason=NAME)
        record = replace(record, config={"name": NAME, "seed": number, "model": {NAME: NAME}}, seed=number)
        record.comparability = Comparability(evaluation=NAME)
        record.metrics = {"test": {"loss": 1.0, "one\x1b[2Jtwo": 2.0}}
        run.write_record(record)
        (run.path / "metrics.csv").write_text(f"step,{OBEYED}\n")
        run.release()
    damaged = Path("outputs/default/run-3/record.json")
    damaged.parent.mkdir()
    damaged.write_text('{"id": "' + OBEYED)
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(type(stream), "isatty", lambda _: True)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:25].partition("\x1b")[0])
@pytest.mark.usefixtures("terminal")
def test_no_command_hands_on_what_a_terminal_obeys(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    main(list(words))
    captured = capsys.readouterr()
    shown = re.sub("\x1b\\[[0-9;]*m", "", captured.out + captured.err).replace("\n", "").replace("\t", "")
    assert shown and not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown), ascii(shown)


@pytest.mark.parametrize("words", [("list", "runs", "outputs"), ("compare", "outputs"), ("runs", "verify", "outputs")])
def test_a_text_that_somebody_made_long_hides_no_other_run(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x" * 100_000, "short"):
        run = RunFolder.create_at(Path("outputs/default") / name[:5])
        text = name if name != "short" else None
        run.write_record(RunRecord(id=run.id, name=name, notes=text, tags=[name], status="failed", reason=text))
        run.release()
    assert main(list(words)) in (0, 1)
    assert len(capsys.readouterr().out) < 10_000


def test_one_file_alone_writes_to_the_terminal() -> None:
    files = Path(headtohead.cli.__file__).parent.glob("*.py")
    writes = {file.name for file in files if re.search(r"sys\.std(out|err)\.write\(", file.read_text(encoding="utf-8"))}
    assert writes == {"terminal.py"}
