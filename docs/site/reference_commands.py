"""Write the reference of the commands, which is what their `--help` prints, and of the fields of a study."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import MISSING, Field, fields
from io import StringIO
from typing import Any
from unittest.mock import patch

from headtohead.cli import COMMANDS, main
from headtohead.studies.definition.study import Study
from headtohead.studies.definition.study_fields import KINDS
from page_parts import code, table
from reference_groups import in_words
from reference_python import attribute_docstrings

_COLUMNS = "100"


def pages() -> dict[str, str]:
    """Return the two pages by name."""
    return {"commands": "\n".join(_commands()), "study_fields": "\n".join(_study_fields())}


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "Each command as its `--help` explains it. [The guide](../guide.md) goes by what you want to do."
    yield ""
    yield from table(
        ("command", ""), ((f"[`h2h {name}`](#h2h-{name})", about) for name, (_, about) in COMMANDS.items())
    )
    for name in COMMANDS:
        yield f"## h2h {name}"
        yield ""
        yield "```text"
        yield help_of(name).rstrip()
        yield "```"
        yield ""


def help_of(command: str) -> str:
    """Return what `h2h COMMAND --help` prints."""
    printed = StringIO()
    with patch.dict(os.environ, COLUMNS=_COLUMNS, NO_COLOR="1"), redirect_stdout(printed), suppress(SystemExit):
        main([command, "--help"])
    return printed.getvalue()


def _study_fields() -> Iterator[str]:
    yield "# Fields of a study"
    yield ""
    yield "What each field of a study's YAML may hold, from the code that reads it; [its page](../study.md)"
    yield "explains them."
    yield ""
    own = {one.name: one for one in fields(Study)}
    meanings = attribute_docstrings(Study.__module__, Study.__name__)
    rows = ((code(name), in_words(kind), _default(own[name]), meanings.get(name, "")) for name, kind in KINDS.items())
    yield from table(("field", "type", "default", "meaning"), rows)


def _default(field: Field[Any]) -> str:
    """Return a field's default as YAML writes it; a study without one is refused."""
    if field.default is MISSING and field.default_factory is MISSING:
        return "required"
    value = field.default_factory() if callable(field.default_factory) else field.default
    return code("null" if value is None else str(list(value) if isinstance(value, tuple) else value))
