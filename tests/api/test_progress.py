"""Progress in a notebook is one output that is written over, so that an exported notebook shows its last line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

import headtohead
from headtohead import progress_lines
from headtohead.api import progress
from headtohead.api.result import _html
from headtohead.data.cache.parallel_map import progress_bar
from headtohead.progress_lines import written_by_command
from headtohead.training.callbacks import progress as of_runs
from headtohead.training.callbacks.progress import ProgressLine

SOURCES = Path(headtohead.__file__).parent
ITS_OWN = {"cli/options.py"}
"""Files with lines of their own: one for every run that ends."""
Work = Callable[[Callable[[], None]], None]


class Output:
    """An output of a cell, as IPython hands it out."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, content: Mapping[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(content["text/plain"])


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[Output]:
    """Stand for a notebook, and hold the outputs of its cell."""
    made: list[Output] = []

    def display(content: Mapping[str, str], *, raw: bool, display_id: bool) -> Output:
        assert raw and display_id and content == {"text/plain": ""}
        made.append(Output())
        return made[-1]

    module = ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    return made


def test_a_cell_has_one_line_of_progress(outputs: list[Output], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_of_steps(4) as show:
        for done in range(5):
            show(done, "a law")
    (output,) = outputs
    assert output.shown[0].startswith("a law 0/4 ░") and "█" not in output.shown[0]
    assert output.shown[-1].startswith("a law 4/4 █") and "░" not in output.shown[-1]
    with progress.progress_of_runs(len) as report:
        report([])
    assert outputs[-1].shown == [f"0 of 1 runs {'░' * 20} 00:00"]
    assert "".join(capsys.readouterr()) == "", "nothing goes to the terminal"


def steps(passed: Callable[[], None]) -> None:
    with progress.progress_of_steps(40) as show:
        for done in range(1, 41):
            passed()
            show(done, "step at 512")


def rows(passed: Callable[[], None]) -> None:
    display = ProgressLine("step at 512", start=0, total=40, enabled=True, unit="rows")
    for done in range(1, 41):
        passed()
        display.step(done)
    display.close(40)


def characters(passed: Callable[[], None]) -> None:
    with progress_bar("step at 512", 40, "characters") as report, progress_bar("inner", 4) as inner:
        for _ in range(40):
            passed()
            inner(1)
            report(1)


@pytest.mark.parametrize(("work", "unit"), [(steps, ""), (rows, " rows"), (characters, " characters")])
def test_without_a_terminal_a_command_writes_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], work: Work, unit: str
) -> None:
    now = 0.0

    def passed() -> None:
        nonlocal now
        now += 1.0

    monkeypatch.setattr(progress_lines, "monotonic", lambda: now)
    monkeypatch.setattr(of_runs, "REFRESH_SECONDS", 0.0)
    work(passed)
    assert capsys.readouterr().err == "", "a function of Python"
    with written_by_command():
        work(passed)
    assert capsys.readouterr().err.splitlines() == [f"step at 512 ({done} of 40{unit})" for done in (10, 20, 30, 40)]


def test_what_reports_nothing_for_long_is_said_before(capsys: pytest.CaptureFixture[str]) -> None:
    with written_by_command(), progress_bar("learning", 2**23, "characters", then="choosing") as report:
        report(2**23)
    assert capsys.readouterr().err == "learning: choosing (8,388,608 of 8,388,608 characters)\n"


def test_whatever_draws_a_bar_has_lines_without_a_terminal() -> None:
    """So that no command is silent for long under nohup or on a cluster."""
    draws = re.compile(r"from (rich\.progress|tqdm\S*) import")
    texts = {file.relative_to(SOURCES).as_posix(): file.read_text("utf-8") for file in SOURCES.rglob("*.py")}
    drawing = {name for name, text in texts.items() if draws.search(text)}
    assert {name for name in drawing if "ProgressLines(" not in texts[name]} == ITS_OWN


def test_columns_of_numbers_end_on_a_line_and_texts_begin_on_one() -> None:
    table = _html([{"arm": "a", "loss": 1.5}, {"arm": "b", "loss": None}])
    assert '<td style="text-align: left">a</td><td style="text-align: right">1.5</td>' in table
