"""No files import each other in a circle. Imports inside functions and under TYPE_CHECKING count: two files that know
each other's names are one idea in two places, whenever the import runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import headtohead

ROOT = Path(headtohead.__file__).parent


def modules_of(root: Path) -> dict[str, Path]:
    """Return every file of the package by the name of its module."""
    files = ((file.relative_to(root.parent).with_suffix("").parts, file) for file in root.rglob("*.py"))
    return {".".join(parts).removesuffix(".__init__"): file for parts, file in files}


def imported_by(source: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a source names in imports, wherever they stand."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in modules else str(node.module)


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules in which each reaches every other."""
    reached: dict[str, set[str]] = {}
    for start in imports:
        result, left = set[str](), [start]
        while left:
            new = imports[left.pop()] - result
            result |= new
            left += new
        reached[start] = result
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in imports}
    return sorted(sorted(group) for group in groups if group)


def imports_in(root: Path) -> dict[str, set[str]]:
    modules = modules_of(root)
    return {
        name: {other for other in imported_by(file.read_text(encoding="utf-8"), modules) if other in modules} - {name}
        for name, file in modules.items()
    }


def test_no_files_import_each_other_in_a_circle() -> None:
    imports = imports_in(ROOT)
    assert len(imports) > 100
    assert circles(imports) == []


def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "goods.py").write_text("def f():\n    from shop.prices import price\n    return price\n")
    (root / "prices.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop import tills\n")
    (root / "tills.py").write_text("import shop.goods\n")
    (root / "alone.py").write_text("from shop.goods import f\n")
    assert circles(imports_in(root)) == [["shop.goods", "shop.prices", "shop.tills"]]
