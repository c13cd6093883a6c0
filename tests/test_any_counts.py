"""`Any` turns the type checker off for whatever touches it: each room holds fewer than it did, never more."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import headtohead

PACKAGE = Path(headtohead.__file__).parent
MOST: dict[str, int] = {
    "__init__": 1, "api": 17, "architectures": 34, "cli": 32, "comparison": 98, "components": 32, "config": 216,
    "data": 183, "diagnostics": 49, "estimates": 19, "execution": 18, "files": 7, "finished_runs": 46,
    "interpretability": 1, "lazy_packages": 1, "pretrained": 49, "ranges": 1, "records": 70, "studies": 68,
    "sweeps": 21, "tasks": 20, "training": 45, "wandb_client": 79,
}  # fmt: skip
"""The most that each room may hold; lower a number when a room holds fewer. Those that stay are what libraries have no
types for, and values of a user's YAML where they are read."""


def count_any(source: str) -> int:
    """Return how often a source names `Any`, beside its import."""
    nodes = ast.walk(ast.parse(source))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def test_any_is_counted_where_it_is_named() -> None:
    assert count_any("from typing import Any\ndef f(x: dict[str, Any], y: Any = 'Any') -> Many: ...") == 2


def test_no_room_holds_more_of_any_than_it_did() -> None:
    counts: Counter[str] = Counter()
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0]
        counts[room.removesuffix(".py")] += count_any(file.read_text(encoding="utf-8"))
    assert {room: count for room, count in counts.items() if count > MOST.get(room, 0)} == {}
