"""Programs that tests write as texts, for other processes, import what the package has; no type checker reads them. And
files of the repository that are run as programs find their modules without what pytest adds to the path."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Set
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

TESTS = Path(__file__).parent
FRESH = {
    "cli/test_answers.py", "cli/test_hydra_habits.py", "cli/test_list_data.py", "cli/test_runs.py",
    "comparison/dashboard/test_dashboard_server.py", "warm_commands.py",
}  # fmt: skip
"""Files that start an interpreter for `h2h`: what it imports, its exit by Ctrl-C, and commands without torch. It costs
seconds of processor time; all others use `warm_commands`."""
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


@pytest.mark.slow
def test_every_program_imports_what_there_is() -> None:
    result = {position: names for position, text in texts() if (names := sorted(set(missing(text))))}
    assert not result


def fresh_starts(text: str) -> Iterator[int]:
    """Yield the lines of commands that start Python for `h2h`."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.List | ast.Tuple) or not node.elts or ast.unparse(node.elts[0]) != "sys.executable":
            continue
        words = [part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if words[:2] == ["-m", "headtohead"] or any(
            "from headtohead.cli import main; sys.exit" in word for word in words
        ):
            yield node.lineno


@pytest.mark.parametrize(
    "words", ['"-m", "headtohead", "list"', '"-c", "from headtohead.cli import main; sys.exit(main())"']
)
def test_a_fresh_start_is_seen(words: str) -> None:
    assert list(fresh_starts(f"run([sys.executable, {words}])")) == [1]


@pytest.mark.slow
def test_commands_start_in_processes_that_have_their_modules() -> None:
    files = {str(file.relative_to(TESTS)): file.read_text(encoding="utf-8") for file in TESTS.rglob("*.py")}
    assert {
        name: lines for name, text in files.items() if name not in FRESH and (lines := list(fresh_starts(text)))
    } == {}
    assert [name for name in FRESH if "sys.executable" not in files[name]] == []


_RUN = re.compile(r"python(?: -W ignore)? ((?:benchmarks|docs|examples|tests)/[\w/]+\.py)")
"""A command that runs a file."""
_ADDED = re.compile(r'sys\.path\.insert\(0, str\(Path\(__file__\)\.parents\[1\](?: / "(\w+)")?\)\)')
"""The line by which a program of tests or benchmarks adds the folder of all tests to the path."""


def programs() -> Set[Path]:
    """Return the files that some page, file or recipe runs."""
    root = TESTS.parent
    pages = [root / "Makefile", root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    pages += [file for name in ("benchmarks", "docs", "tests") for file in (root / name).rglob("*.py")]
    commands = {name for page in set(pages) - WRONG_ON_PURPOSE for name in _RUN.findall(page.read_text("utf-8"))}
    return {*(root / "benchmarks").glob("*.py"), *(root / name for name in commands)}


def out_of_reach(program: Path) -> Iterator[str]:
    """Yield the modules that a program asks for and that neither its folders nor an installed package has."""
    folders = {program.parent}
    folders |= {program.parents[1] / name for name in _ADDED.findall(program.read_text(encoding="utf-8"))}
    optional = (TESTS.parent / "pyproject.toml").read_text(encoding="utf-8")
    waiting, seen = [program], set[Path]()
    while waiting:
        file = waiting.pop()
        seen.add(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in [node.module] if isinstance(node, ast.ImportFrom) and node.module else names:
                path = Path(*name.split("."))
                local = next((at for folder in folders if (at := folder / path.with_suffix(".py")).is_file()), None)
                if local is not None:
                    waiting += [] if local in seen else [local]
                elif path.parts[0] != "__main__" and not any((folder / path).is_dir() for folder in folders):
                    spec = find_spec(path.parts[0])
                    if f'"{path.parts[0]}' not in optional and (spec is None or _is_of_tests(spec)):
                        yield f"{file.relative_to(TESTS.parent)}: {name}"


def _is_of_tests(spec: ModuleSpec) -> bool:
    """Return whether it is pytest alone that has the module on its path."""
    paths = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(Path(path).is_relative_to(TESTS) for path in paths)


@pytest.mark.parametrize("program", sorted(programs()), ids=lambda file: str(file.relative_to(TESTS.parent)))
def test_a_program_finds_its_modules_by_itself(program: Path) -> None:
    assert list(out_of_reach(program)) == []
