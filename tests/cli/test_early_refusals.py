"""A typical mistake is refused before what takes seconds is imported, and nothing is prepared for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "torch",
    "pytorch_lightning",
    "torchmetrics",
    "datasets",
    "transformers",
    "pandas",
    "pyarrow",
    "wandb",
    "hydra",
)
WITHOUT_ANY = (
    ["trian", "data=csv"],
    ["train", "data=cvs"],
    ["compare", "nowhere"],
    ["data", "nowhere.csv"],
    ["study", "norm_small"],
    ["study", "new", "x", "nowhere.csv"],
)
"""Mistakes that the words alone show."""
WITH_HYDRA = (
    ["train", "modle=encoder_only"],
    ["train", "optimizer.lrr=1"],
    ["train", "trainer.max_steps=abc"],
    ["train", "optimizer._target_=torch.optim.LBFGS"],
)
"""Mistakes that a composed configuration shows."""
PROGRAM = """
import json, sys
from headtohead.cli import main
for commands, allowed in {steps!r}:
    for command in commands:
        assert main(command) == 2, command
        loaded = [name for name in {heavy!r} if name in sys.modules and name not in allowed]
        assert not loaded, f"{{command}} imports {{loaded}}"
"""


@pytest.mark.process
def test_ten_mistakes_are_refused_without_heavy_imports_and_leave_nothing_behind(tmp_path: Path) -> None:
    steps = [(WITHOUT_ANY, ()), (WITH_HYDRA, ("hydra", "torch"))]
    environment = {**os.environ, "HEADTOHEAD_CACHE": str(tmp_path / "cache")}
    program = PROGRAM.format(steps=steps, heavy=HEAVY)
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stderr.count("error: ") == len(WITHOUT_ANY) + len(WITH_HYDRA)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")} | {
        path.name for path in tmp_path.iterdir()
    }
    assert left <= {"cache", "cache/index-0"}, "no data is prepared, and nothing written beside the index of runs"
