"""Programs that tests write as texts, for other processes, import what the package has; no type checker reads them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

TESTS = Path(__file__).parent
WRONG_ON_PURPOSE = {Path(__file__), TESTS / "test_documentation.py"}
_LINE = re.compile(r"(?:^|;|\n)\s*(from headtohead[\w.]* import [\w, ]+|import headtohead[\w.]*)(?=\s*(?:;|\n|$))")


def imports_of(text: str) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a program, or of the lines that read like imports where it is a part of one."""
    try:
        tree = ast.parse(dedent(text))
    except (SyntaxError, ValueError):
        tree = ast.parse("\n".join(_LINE.findall(text)))
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def missing(text: str) -> Iterator[str]:
    """Yield what a program asks of the package in vain, attributes of the modules that it names among them."""
    modules: dict[str, object] = {}
    for node in imports_of(text):
        package = getattr(node, "module", None)
        for alias in node.names:
            name = f"{package}.{alias.name}" if package else alias.name
            if name.partition(".")[0] != "headtohead":
                continue
            try:
                made = _results(name)
            except (ImportError, AttributeError):
                yield name
                continue
            if package or alias.asname:
                modules[alias.asname or alias.name] = made
    for name, module in modules.items():
        for attribute in re.findall(rf"(?<![\w.'\"]){re.escape(name)}\.(\w+)", text):
            if isinstance(module, type(ast)) and not hasattr(module, attribute):
                yield f"{module.__name__}.{attribute}"


def _results(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text of the tests that speaks of the package, with its place."""
    for file in sorted(TESTS.rglob("*.py")):
        if file in WRONG_ON_PURPOSE:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if "import" in node.value and "headtohead" in node.value:
                yield f"{file.relative_to(TESTS)}:{node.lineno}", node.value


@pytest.mark.parametrize(
    ("text", "is_missing"),
    [
        ("from headtohead.cli import main\nmain()", False),
        ("from headtohead.cli import maim", True),
        ("from headtohead.nowhere import main", True),
        ("from headtohead import cli\ncli.maim()", True),
        ("import sys; from headtohead.cli import maim; maim({", True),
    ],
)
def test_the_law_sees_what_it_is_about(text: str, is_missing: bool) -> None:
    assert bool(list(missing(text))) is is_missing


def test_every_program_imports_what_there_is() -> None:
    result = {position: names for position, text in texts() if (names := sorted(set(missing(text))))}
    assert not result
