"""Models compute on another device what they compute on the CPU, where tensors of two devices do not mix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warm_commands import h2h

PROGRAM = Path(__file__).with_name("on_device.py")
FEWEST = {"tasks": 48, "mixers": 110, "parts": 130, "writing": 50, "runs": 22}
"""The fewest cases of each kind."""
IN_THE_GATE = {"tasks": 48, "mixers": 48, "parts": 48, "writing": 24, "runs": 24}
ALL = 10_000


def refusals(kind: str, number: int) -> dict[str, str | None]:
    """Return what became of each case, in a process of its own, since the device stays in it."""
    done = h2h(kind, str(number), program=PROGRAM, first="import warnings; warnings.simplefilter('ignore')")
    assert done.returncode == 0, done.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["case"]: line["refused"] for line in lines}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("kind", FEWEST)
@pytest.mark.parametrize("number", ["some", pytest.param("all", marks=pytest.mark.whole)])
def test_another_device_computes_what_the_cpu_computes(kind: str, number: str) -> None:
    result = refusals(kind, ALL if number == "all" else IN_THE_GATE[kind])
    assert len(result) >= (FEWEST[kind] if number == "all" else min(FEWEST[kind], IN_THE_GATE[kind]))
    assert not {case: refusal for case, refusal in result.items() if refusal is not None}


@pytest.mark.process
def test_the_device_refuses_what_cuda_refuses() -> None:
    result = refusals("faults", ALL)
    assert result.keys() == {"_Forgetful", "_Filling", "_Mixing"}
    assert all(refusal is not None and "RuntimeError" in refusal for refusal in result.values())
