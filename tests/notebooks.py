"""Run the cells of a notebook in this process, as a kernel would: each with a file name that linecache knows."""

from __future__ import annotations

import ast
import json
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


def code_cells(notebook: Path) -> Iterator[str]:
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def run_notebook(notebook: Path) -> list[Any]:
    """Return what each cell shows: the value of its last line, None where that is not an expression."""
    scope = ModuleType(f"notebook_{notebook.stem}")
    sys.modules[scope.__name__] = scope
    try:
        return [_run_cell(text, f"<{notebook.stem}, cell {n}>", scope) for n, text in enumerate(code_cells(notebook))]
    finally:
        del sys.modules[scope.__name__]


def _run_cell(text: str, name: str, scope: ModuleType) -> Any:
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    tree = ast.parse(text)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        last = None
    else:
        tree.body.pop()
    exec(compile(tree, name, "exec"), vars(scope))
    return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), vars(scope))
