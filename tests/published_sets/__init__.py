"""A small repository of every published set of conf/data, of its exact published schema.

Each module here holds those of one kind, in `SETS`: the name of the YAML, and what writes the repository to a folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

Write = Callable[[Path], None]


def all_sets() -> dict[str, Write]:
    """Return the sets of all modules of this package."""
    result: dict[str, Write] = {}
    for module in pkgutil.iter_modules(__path__):
        result |= getattr(importlib.import_module(f"{__name__}.{module.name}"), "SETS", {})
    return result
