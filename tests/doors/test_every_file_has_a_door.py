"""The fuzzer's table holds every argument and every field that names something to read."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from doors.doors import DOORS
from headtohead.cli import COMMANDS, main, options
from headtohead.config.compose.choices import choices
from headtohead.config.errors import ConfigurationError

WORDS = re.compile(r"PATH|FILE|DIR|RUN|FOLDER")
"""The words of a metavar which say that a file, or a folder of files, is named."""
WRITTEN = {"--csv", "--html", "--plot", "--out"}
ELSEWHERE = {
    ("dashboard", "folder"): "test_dashboard.py asks a dashboard of damaged runs",
    ("evaluate", "--lm-eval-tasks"): "lm-evaluation-harness reads them, and its code too: a folder that is trusted",
}
FIELD = re.compile(r"^(?:\w+\.)?((?:\w+_)?path|folder): null", re.MULTILINE)
BESIDE = {"validation_path", "test_path"}
"""Files of the same kind as the one at `path`."""


def arguments_of(command: str, monkeypatch: pytest.MonkeyPatch) -> list[argparse.Action]:
    seen: list[options.Parser] = []

    def noted(self: options.Parser, *provided: Any, **named: Any) -> None:
        seen.append(self)
        raise ConfigurationError("seen")

    with monkeypatch.context() as patched:
        for name in ("parse_known_args", "parse_known_intermixed_args"):
            patched.setattr(options.Parser, name, noted)
        assert main([command]) == 2
    return list(seen[0]._actions) if seen else []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_that_names_a_file_has_a_door(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_name = []
    for action in arguments_of(command, monkeypatch):
        name = action.option_strings[0] if action.option_strings else action.dest
        if not WORDS.search(str(action.metavar)) or name in WRITTEN or (command, name) in ELSEWHERE:
            continue
        doors = [door for door in DOORS[command] if door.reads]
        if not (any(name in door.arguments for door in doors) if action.option_strings else doors):
            without_name.append(name)
    assert without_name == [], f"h2h {command}: add a door to tests/doors/doors.py"


def test_every_field_of_data_that_names_a_file_has_a_door() -> None:
    without_name = []
    for choice in choices("data"):
        if set(FIELD.findall(Path(choice.path).read_text(encoding="utf-8"))) - BESIDE:
            named = [door for doors in DOORS.values() for door in doors if f"data={choice.name}" in door.arguments]
            if not any(door.reads for door in named):
                without_name.append(choice.name)
    assert without_name == [], "add a door to tests/doors/doors.py"


@pytest.mark.parametrize("field", ["resume_from", "init_from", "data.tokenizer", "init_from=hf:", "data.tokenizer=hf:"])
def test_every_field_of_a_run_that_names_a_file_has_a_door(field: str) -> None:
    begins = field if "=" in field else f"{field}="
    doors = [door for several in DOORS.values() for door in several if door.reads]
    assert any(argument.startswith(begins) for door in doors for argument in door.arguments)


def test_the_law_sees_fields_and_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FIELD.findall("path: null  # a file\ntest_path: null\nfolder: null\nname: null\n") == [
        "path", "test_path", "folder",
    ]  # fmt: skip
    assert any(WORDS.search(str(action.metavar)) for action in arguments_of("probe", monkeypatch))
