"""No test hangs on how fast the machine is: whatever waits, waits for a state, and long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import waiting

TESTS = Path(__file__).parent
WAITS = {"wait", "join", "get", "communicate", "run", "result", "wait_procs", "HTTPConnection", "create_connection"}
LONGEST_PAUSE = 0.1
"""Seconds between two looks at a state; a longer one is a guess at how long something takes."""


def number(node: ast.AST) -> float | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def short_waits(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line of each wait that a loaded machine may not keep, with what it says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and "monotonic()" in ast.unparse(node.left):
            yield node.lineno, ast.unparse(node)
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        limits = [number(word.value) for word in node.keywords if word.arg == "timeout"]
        if name in ("wait", "join", "result"):
            limits += map(number, node.args[:1])
        if name in WAITS and any(limit is not None and limit < waiting.PATIENCE for limit in limits):
            yield node.lineno, ast.unparse(node)
        if name == "sleep" and (pause := number(node.args[0])) is not None and pause > LONGEST_PAUSE:
            yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize(
    "line",
    [
        "process.wait(30)", "worker.join(timeout=60)", "subprocess.run(command, timeout=300)", "time.sleep(2)",
        "end = time.monotonic() + 60",
    ],
)  # fmt: skip
def test_a_short_wait_is_seen(line: str) -> None:
    assert len(list(short_waits(ast.parse(line)))) == 1


def test_a_long_wait_is_none() -> None:
    longs = "process.wait(PATIENCE)\ntime.sleep(0.02)\nstart.wait()\n', '.join(words)\nrun(['x'], timeout=PATIENCE)"
    assert not list(short_waits(ast.parse(longs)))


@pytest.mark.slow
def test_every_wait_is_long_or_for_a_state() -> None:
    result = [
        f"{file.relative_to(TESTS)}:{line} {what[:100]}"
        for file in sorted(TESTS.rglob("*.py"))
        if file not in ALLOWED
        for line, what in short_waits(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not result, "\n".join(["wait for a state, with tests/waiting.py:", *result])


ALLOWED = {TESTS / name for name in ("waiting.py", "slurm_cluster/commands.py", "wandb_server/serving.py")}
"""The one that waits, and stand-ins whose behaviour is in seconds."""
