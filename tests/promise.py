"""List the names that a version promises to keep; `python tests/promise.py` writes those of this version, once, when
its first release is made."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import fields, is_dataclass
from io import StringIO
from pathlib import Path
from typing import Any, get_args, get_type_hints

import headtohead
from headtohead.architectures.architecture import Architecture
from headtohead.cli import COMMANDS, main
from headtohead.components.block_parts import FeedForward, Norm, ResidualScheme
from headtohead.components.component import Mixer, Position
from headtohead.config.compose.choices import choice_names, config_folder, groups, root_fields
from headtohead.config.schema.json_schema import json_schema
from headtohead.data.data_source import DataSource
from headtohead.execution.launchers.launcher import Launcher
from headtohead.metrics import Metric
from headtohead.records.record import SCHEMA_VERSION, RunRecord
from headtohead.studies.definition.study_fields import KINDS
from headtohead.tasks.task import Task

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
FILE = Path(__file__).parent / f"promise_{VERSION.rpartition('.')[0]}.json"
"""The promise of the minor version: patch releases keep it."""
ROOTS = sorted(file.stem for file in config_folder().glob("*.yaml"))
CLASSES = (
    Mixer, Norm, Position, FeedForward, ResidualScheme, Architecture, Task, DataSource, Metric, Launcher,
)  # fmt: skip
"""The classes that a part of a user's own derives from."""


def promise() -> dict[str, list[str]]:
    """Return all names that are promised, by kind."""
    definitions = json_schema(KINDS)["definitions"]
    return {
        "commands": sorted(_commands()),
        "choices": sorted(f"{group}={name}" for group in groups() for name in choice_names(group)),
        "fields": sorted(
            {f"{group}.{name}" for group, node in definitions.items() for name in node.get("properties", {})}
            | {name for root in ROOTS for name in root_fields(root)}
        ),
        "study fields": sorted(KINDS),
        "record fields": [f"schema_version {SCHEMA_VERSION}", *sorted(_record_fields(RunRecord))],
        "functions of Python": sorted(_arguments()),
        "classes of Python": sorted(_methods()),
    }


def _commands() -> Iterator[str]:
    for name in COMMANDS:
        printed = StringIO()
        with redirect_stdout(printed), suppress(SystemExit):
            main([name, "--help"])
        usage = printed.getvalue().partition("\nexamples:")[0]
        yield from {f"h2h {name} {option}" for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", usage, re.MULTILINE)}


def _record_fields(kind: type, above: str = "") -> Iterator[str]:
    hints = get_type_hints(kind)
    for one in fields(kind):
        if one.metadata.get("stored", True):
            yield f"{above}{one.name}"
            for inner in (hints[one.name], *get_args(hints[one.name])):
                if isinstance(inner, type) and is_dataclass(inner):
                    yield from _record_fields(inner, f"{above}{one.name}.")


def _arguments() -> Iterator[str]:
    for name in headtohead.__all__:
        yield from (f"{name}({argument})" for argument in inspect.signature(getattr(headtohead, name)).parameters)


def _methods() -> Iterator[str]:
    for kind in CLASSES:
        for name in sorted(getattr(kind, "__abstractmethods__", ())):
            method: Any = inspect.getattr_static(kind, name)
            taken = inspect.signature(method).parameters if callable(method) else ()
            yield f"{kind.__name__}.{name}({', '.join(taken)})"
        yield kind.__name__


if __name__ == "__main__":
    FILE.write_text(json.dumps(promise(), indent=1) + "\n", encoding="utf-8")
