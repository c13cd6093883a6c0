"""Output fits the terminal that it is written to, no word is broken, and an output that takes nothing is reported."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from headtohead.cli.terminal import folded, show_table
from headtohead.comparison.tables.run_table import as_table, line_of
from headtohead.records.record import RunRecord

WORDS = ["exact", "match", "of", "rotary-s1000", "42.4", "tokens/s", "data.max_length=129", "(see", "outputs/x)"]
SYNC = "`h2h sync outputs/default/a-run`"


def drawn_words(draw_seed: int, most: int) -> list[str]:
    draw = random.Random(draw_seed)
    return [draw.choice(WORDS) for _ in range(draw.randint(1, most))]


@pytest.mark.drawn
def test_sentences_keep_their_words_and_their_commands(draw_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join([*drawn_words(draw_seed, 60), SYNC, *drawn_words(draw_seed + 1, 9)])
    monkeypatch.setenv("COLUMNS", str(20 + draw_seed % 120))
    lines = folded(text, StringIO()).split("\n")
    assert " ".join(lines) == text
    assert any(SYNC in line for line in lines)
    assert all(len(line) <= 20 + draw_seed % 120 or line == SYNC for line in lines)


@pytest.mark.drawn
def test_tables_keep_their_words_and_their_columns(
    draw_seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(draw_seed)
    table = Table(title="drawn")
    for column in range(draw.randint(1, 9)):
        table.add_column(f"column {column}", no_wrap=draw.random() < 0.5, overflow="fold")
    runs = [[" ".join(drawn_words(draw.randrange(999), 3)) for _ in table.columns] for _ in range(3)]
    for row in runs:
        table.add_row(*map(Text, row))
    monkeypatch.setenv("COLUMNS", "80")
    show_table(table)
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.split("\n"))
    words = re.split(r"[\s│┃]+", shown)
    for word in (word for row in runs for run in row for word in run.split()):
        assert word in words
    assert {str(column) for column in range(len(table.columns))} <= set(words)


def test_a_name_longer_than_half_the_line_is_broken_and_its_figures_stand_beside_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "encoder_only-tiny-classification-csv-path_reviews.csv-text_column_review-label_column_stars-s0"
    monkeypatch.setenv("COLUMNS", "80")
    show_table(as_table([line_of(RunRecord(id="a", name=name))]))
    tables = capsys.readouterr().out.split("┏")[1:]
    assert len(tables) <= 3 and "baseline" in tables[0] and "status" in tables[0]
    assert "".join(re.findall(r"^│ (\S+)", tables[0], re.MULTILINE)) == name


@pytest.mark.parametrize(("forced", "code"), [("1", "\x1b[1m"), ("", "")])
def test_a_pipe_gets_colours_where_they_are_forced_and_nothing_of_a_strangers_cell(
    forced: str, code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("name")
    table.add_row(Text("\x1b]0;title\x07 \u202e naïve 日本語 👩‍👩‍👧 עברית"))
    monkeypatch.setenv("FORCE_COLOR", forced)
    show_table(table)
    shown = capsys.readouterr().out
    assert code in shown and "\\x1b[" not in shown and ("\x1b[" in shown) == bool(forced)
    assert "\\x1b]0;title" in shown and "\\u202e naïve 日本語 👩‍👩‍👧 עברית" in shown


def test_a_file_gets_sentences_in_one_line_unless_columns_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "word " * 40
    monkeypatch.delenv("COLUMNS", raising=False)
    assert folded(text, StringIO()) == text
    monkeypatch.setenv("COLUMNS", "30")
    assert folded(text, StringIO()).count("\n") > 5


def in_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = line.replace("h2h", f'"{sys.executable}" -m headtohead')
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True)


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("list >&-", 0, ""),
        ("list >&- 2>&- <&-", 0, ""),
        ("list > /dev/full", 1, "error: standard output cannot be written: No space left on device\n"),
        ("--help > /dev/full", 1, "error: standard output cannot be written: No space left on device\n"),
        ("lisst 2> /dev/full", 2, ""),
        ("inspect experiment=tagging > /dev/full", 1, "No space left on device"),
        ("list | head -1 > /dev/null; exit ${PIPESTATUS[0]}", 0, ""),
    ],
)
def test_an_output_that_takes_nothing_is_said_in_a_sentence(line: str, code: int, words: str, tmp_path: Path) -> None:
    result = in_shell(f"h2h {line}", tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (code, 1 if words else 0)
    assert words in result.stderr


@pytest.mark.process
def test_a_working_folder_that_is_gone_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    result = in_shell("cd gone; rmdir ../gone; h2h list", tmp_path)
    assert (result.returncode, result.stderr) == (
        2,
        "error: the working folder has been deleted: cd to one that exists\n",
    )
