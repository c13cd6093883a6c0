"""Every name of the package (function, class, constant, method) is read by it: none serves tests alone, or nobody."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/headtohead"
WORD = re.compile(r"[A-Za-z_]\w*")
PATH_OF_NAMES = re.compile(r"[\w.:/-]+")
BY_LAWS = PACKAGE / "components/mixers/reference"
"""Slow twins, which are found by their names: ReferenceMamba for Mamba."""
OF_NO_LIBRARY = {"ABC", "Protocol", "Generic", "NamedTuple", "TypedDict", "Exception", "object"}
"""Bases that call no method of a class by its name."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def last_name(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def of_libraries(trees: Mapping[Path, ast.Module]) -> set[str]:
    """Return the classes with a base that is not of the package: what they override, a library calls."""
    bases = {
        node.name: [last_name(base) for base in node.bases]
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    result = {name for name, own in bases.items() if set(own) - bases.keys() - OF_NO_LIBRARY}
    while more := {name for name, own in bases.items() if result & set(own)} - result:
        result |= more
    return result


def defined(tree: ast.Module, called_by_libraries: set[str]) -> Iterator[str]:
    """Return the constants, functions and classes of a module, and the methods that no library calls."""
    for node in tree.body:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                yield target.id
        if isinstance(node, Function | ast.ClassDef) and not node.decorator_list:
            yield node.name
        if isinstance(node, ast.ClassDef):
            if node.decorator_list:
                yield node.name
            if node.name not in called_by_libraries:
                yield from (item.name for item in node.body if isinstance(item, Function))


def used(tree: ast.Module) -> Iterator[str]:
    """Return the names that a module reads, also those in texts of nothing else: targets, tables of commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PATH_OF_NAMES.fullmatch(node.value):
            yield from WORD.findall(node.value)
        elif isinstance(node, ast.arg | ast.AnnAssign) and isinstance(node.annotation, ast.Constant):
            yield from WORD.findall(str(node.annotation.value))


def unused(trees: Mapping[Path, ast.Module], elsewhere: str = "") -> list[str]:
    """Return what is defined and never read."""
    uses = Counter(WORD.findall(elsewhere))
    for tree in trees.values():
        uses.update(used(tree))
    called_by_libraries = of_libraries(trees)
    return [
        f"{path.name}: {name}"
        for path, tree in trees.items()
        if BY_LAWS not in path.parents
        for name in defined(tree, called_by_libraries)
        if not uses[name] and not (name.startswith("__") and name.endswith("__"))
    ]


CALLED_BY_NOTEBOOKS = "_repr_html_"


def called_from_python() -> list[str]:
    """Return the methods of results that the page of the Python API or a notebook calls: `result.curve(...)`."""
    pages = [ROOT / "docs/python.md", ROOT / "README.md", *ROOT.glob("examples/*.ipynb")]
    return [name for page in pages for name in re.findall(r"\.([a-z_]+)", page.read_text(encoding="utf-8"))]


@pytest.mark.slow
def test_every_name_is_used() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    others = [*ROOT.glob("conf/**/*.yaml"), ROOT / "pyproject.toml", *ROOT.glob("benchmarks/*.py")]
    texts = [file.read_text(encoding="utf-8") for file in others]
    assert unused(trees, "\n".join([*texts, *called_from_python(), CALLED_BY_NOTEBOOKS])) == []


@pytest.mark.slow
def test_a_named_range_has_several_users() -> None:
    """A range of one argument stands in its annotation."""
    names = set(re.findall(r"^([A-Z]\w+) = Annotated", (PACKAGE / "ranges.py").read_text(encoding="utf-8"), re.M))
    uses = Counter(word for path in PACKAGE.rglob("*.py") for word in used(ast.parse(path.read_text(encoding="utf-8"))))
    assert len(names) > 20 and {name for name in names if uses[name] < 2} == set()


def test_the_law_sees_what_nobody_calls() -> None:
    source = """
class Shelf:
    '''take_sizes is told of here alone.'''
    def take_sizes(self): ...
    def read(self): return self
class Trained(Module):
    def on_epoch_end(self): ...
class More(Trained):
    def on_step_end(self): ...
def lonely(): return Shelf().read(), Trained, More
"""
    assert unused({Path("shelf.py"): ast.parse(source)}) == ["shelf.py: take_sizes", "shelf.py: lonely"]
