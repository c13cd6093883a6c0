"""Docstrings begin as sentences do, with a verb or a subject, and not with a preposition or a question word.

Those of attributes, which follow an assignment, may be noun phrases, and `Whether` is how one of a flag begins."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = sorted(
    str(entry.relative_to(ROOT))
    for folder in ("src/headtohead", "tests", "benchmarks")
    for entry in (ROOT / folder).iterdir()
    if entry.suffix == ".py" or (entry.is_dir() and any(entry.rglob("*.py")))
)
"""The rooms and the files of the package, its tests and its benchmarks."""
_FRAGMENT = re.compile(
    r"(after|against|among|as|at|before|between|by|during|for|from|in|into|like|of|on|over|per|since|through|to|towards?"
    r"|under|until|upon|with|within|without|how|what|when|where|whether|which|who|whom|whose|why|false|none|true)\b(?!')",
    re.IGNORECASE,
)
"""Prepositions, question words and bare values, with which a fragment begins: "Of each class", "None where it is"."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def attribute_docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that follows an assignment in the body of a node."""
    body = getattr(node, "body", None)
    for statement, following in pairwise(body if isinstance(body, list) else []):
        match statement, following:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                yield following.lineno, text


def fragments_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring that begins like a fragment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and _FRAGMENT.match(text := ast.get_docstring(node) or ""):
            yield node.body[0].lineno, text.splitlines()[0]
        for line, text in attribute_docstrings(node):
            if _FRAGMENT.match(text) and not text.startswith("Whether "):
                yield line, text.splitlines()[0]


def leftovers_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every string that follows a docstring."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement, following in pairwise(body if isinstance(body, list) else []):
            match statement, following:
                case ast.Expr(value=ast.Constant(value=str())), ast.Expr(value=ast.Constant(value=str(text))):
                    yield following.lineno, text.splitlines()[0]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_a_subject(room: str) -> None:
    path = ROOT / room
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    result = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in files
        for source in [file.read_text(encoding="utf-8")]
        for line, text in (*fragments_in(source), *leftovers_in(source))
    ]
    assert not result, "these docstrings are fragments or follow another, write one sentence:\n" + "\n".join(result)


@pytest.mark.parametrize("text", ["Of what each wrote, at each.", "None where it is free.", "What a task shares."])
def test_a_fragment_is_found_wherever_it_stands(text: str) -> None:
    spots = (
        "{}",
        "class A:\n    {}",
        "class A:\n    def f(self):\n        {}",
        "a = 1\n{}",
        "class A:\n    a: int\n    {}",
    )
    for source in (spot.format(f'"""{text}"""') for spot in spots):
        assert [result for _, result in fragments_in(source)] == [text]
    assert not list(fragments_in('def f():\n    """Return none of them."""'))
    assert not list(fragments_in('a = 1\n"""Whether it is one."""'))


def test_a_docstring_that_follows_another_is_a_leftover() -> None:
    assert list(leftovers_in('a = 1\n"""A number."""\n"""Another."""')) == [(3, "Another.")]
    assert not list(leftovers_in('"""A module."""\na = 1\n"""A number."""'))
