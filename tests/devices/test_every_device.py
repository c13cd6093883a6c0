"""Models compute on another device what they compute on the CPU, where tensors of two devices do not mix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("on_device.py")
FEWEST = {"tasks": 48, "choices": 250, "writing": 50, "runs": 20}


def refusals(kind: str) -> dict[str, str | None]:
    """Return what became of each case, in a process of its own, since the device stays in it."""
    paths = os.pathsep.join(filter(None, (str(PROGRAM.parents[1]), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-W", "ignore", str(PROGRAM), kind]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["case"]: line["refused"] for line in lines}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("kind", FEWEST)
def test_another_device_computes_what_the_cpu_computes(kind: str) -> None:
    result = refusals(kind)
    assert len(result) >= FEWEST[kind]
    assert not {case: refusal for case, refusal in result.items() if refusal is not None}


@pytest.mark.process
def test_the_device_refuses_what_cuda_refuses() -> None:
    result = refusals("faults")
    assert result.keys() == {"_Forgetful", "_Filling", "_Mixing"}
    assert all(refusal is not None and "RuntimeError" in refusal for refusal in result.values())
