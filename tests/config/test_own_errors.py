"""Every refusal of the package is one of its own kind of errors, and the command line prints it as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headtohead
from headtohead import cli
from headtohead.errors import UsageError

PACKAGE = Path(headtohead.__file__).parent
TAIL = "HEADTOHEAD_DEBUG=1 shows"
EXTERNAL = {"ValueError", "TypeError", "OSError", "RuntimeError", "Exception", "FileNotFoundError"}
"""Errors that Python and libraries raise: of these a place may matter, so that none of ours may be one."""


def raised(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.exc.func if isinstance(node.exc, ast.Call) else node.exc


@pytest.mark.slow
def test_the_package_raises_no_error_of_anybody_else_as_a_refusal() -> None:
    result = [
        f"{path.relative_to(PACKAGE)}:{error.lineno}: {error.id}"
        for path in PACKAGE.rglob("*.py")
        for error in raised(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(error, ast.Name) and error.id in EXTERNAL
    ]
    assert not result, result


@pytest.mark.slow
def test_every_value_error_of_the_package_is_a_refusal() -> None:
    result = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name != UsageError.__name__
        if {"ValueError", "OSError", "FileNotFoundError"} & (bases := {ast.unparse(base) for base in node.bases})
        if UsageError.__name__ not in bases
    ]
    assert not result, result


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (UsageError("give another"), r"give another"),
        (ValueError("strange"), rf"strange \(in headtohead/cli/__init__\.py:\d+; {TAIL} the whole\)"),
        (PermissionError(13, "Permission denied", "/a/file"), r"/a/file: Permission denied"),
    ],
)
def test_errors_of_others_name_a_file_or_the_line_they_come_from(
    error: Exception, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr("headtohead.cli.train.run", refuses)
    assert cli.main(["train"]) == cli.REFUSED
    assert re.fullmatch(rf"error: {shown}\n", capsys.readouterr().err)
