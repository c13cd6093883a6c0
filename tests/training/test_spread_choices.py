"""Every family and task, and parts that read more than one token or step: over two processes, copied, sharded and
divided, a run has the losses of one process, or is refused before it starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headtohead as h2h
from training import spread_runs
from training.spread_runs import CASES, WAYS, losses, overrides_of
from warm_commands import h2h as command

GATE = ("stick_breaking", "disentangled", "model=kimi_linear", "task=masked_diffusion", "task=replaced_token_detection")
"""The cases of the gate; `make laws-long` runs all."""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "case", [name if name in GATE else pytest.param(name, marks=pytest.mark.whole) for name in CASES]
)
def test_a_run_over_two_processes_has_the_losses_of_one(case: str, tmp_path: Path) -> None:
    done = command(tmp_path, case, program=Path(spread_runs.__file__))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [line["way"] for line in lines] == list(WAYS)
    spread = {line["way"]: line["losses"] for line in lines if "refused" not in line}
    assert all("=" in line["refused"] for line in lines if "refused" in line), "a refusal names what to type instead"
    if spread:
        alone = losses(h2h.train(h2h.compose("train", overrides_of(case, tmp_path / "alone"))))
        rel = 1e-3 if case == "soap" else 1e-5  # directions of no gradient have bases of rounding
        assert alone and spread == {way: pytest.approx(alone, rel=rel) for way in spread}
