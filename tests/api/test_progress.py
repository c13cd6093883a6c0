"""Progress in a notebook is one output that is written over, so that an exported notebook shows its last line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from headtohead.api import progress
from headtohead.api.error_translation import for_typed_commands
from headtohead.api.result import _html


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


def test_without_a_terminal_a_command_writes_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress, "monotonic", lambda: now)

    def work() -> str:
        nonlocal now
        with progress.progress_of_steps(40) as show:
            for done in range(1, 41):
                now += 1.0
                show(done, "step at 512")
        return capsys.readouterr().err

    assert work() == "", "a function of Python"
    with for_typed_commands():
        assert work().splitlines() == [f"step at 512 ({done} of 40)" for done in (10, 20, 30, 40)]


def test_columns_of_numbers_end_on_a_line_and_texts_begin_on_one() -> None:
    table = _html([{"arm": "a", "loss": 1.5}, {"arm": "b", "loss": None}])
    assert '<td style="text-align: left">a</td><td style="text-align: right">1.5</td>' in table
