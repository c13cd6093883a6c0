"""A typical mistake is refused before what takes seconds is imported, and nothing is prepared for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.cli import COMMANDS, main

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
MISSPELT_OPTION = tuple([command, "--optoin"] for command in sorted(COMMANDS))
"""The same mistake at every command, so that a new one is held to it too."""
WITHOUT_ANY = (
    *MISSPELT_OPTION,
    ["trian", "data=csv"],
    ["train", "data=cvs"],
    ["check", "nowhere.Mixer"],
    ["compare", "nowhere"],
    ["dashboard", "nowhere"],
    ["data", "nowhere.csv"],
    ["embed", "nowhere", "notes", "--query", "x"],
    ["embed", "bm25", "nowhere", "--query", "x"],
    ["evaluate", "nowhere"],
    ["export", "nowhere", "--to", "hub"],
    ["generate", "nowhere", "--prompt", "x"],
    ["list", "modle"],
    ["probe", "nowhere"],
    ["probe", "nowhere", "--data"],
    ["runs", "verify", "nowhere"],
    ["schema", "modle"],
    ["study", "norm_small"],
    ["study", "new", "x", "nowhere.csv"],
    ["study", "new", "x", "--from", "norm_small"],
    ["sweep", "nowhere.yaml"],
    ["sync", "nowhere"],
)
"""Mistakes that the words alone show."""
_ARMS = ("--arm", "a=", "--arm", "b=model/norm=rms_norm")
COMPOSING = (
    ["train"],
    ["train", "-m", "seed=0,1"],
    ["inspect"],
    ["doctor"],
    ["bench"],
    ["coordinates"],
    ["plan"],
    ["plan", "--study", "norms_small", "--on", "cpu"],
    ["probe", "--data"],
    ["probe", "--positions"],
    ["match", *_ARMS],
    ["match", "norms_small"],
    ["study", "norms_small"],
    ["study", "norms_small", "--plan"],
)
"""The ways to a configuration that overrides make."""
MISTAKES = (["optimizer.lrr=1"], ["data=text", "data.path=nowhere.txt"], ["init_from=hf:./nowhere"])
_IMAGES = ("data=image_folder", "task=image_classification", "model=vision_transformer")
WITH_HYDRA = (
    *([*command, *mistake] for command in COMPOSING for mistake in MISTAKES),
    ["train", "modle=encoder_only"],
    ["train", "trainer.max_steps=abc"],
    ["train", "optimizer._target_=torch.optim.LBFGS"],
    ["train", *_IMAGES, "data.path=nowhere"],
    ["train", "data=hub"],
    ["doctor", "data=csv", "data.path=.", "data.test_path=nowhere.csv", "task=classification", "model=encoder_only"],
    ["plan", "--on", "h100x"],
    ["match", *_ARMS, "--move", "nothing"],
    ["match", *_ARMS, "--budget", "equal_nothing"],
    ["match", "norm_small"],
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
def test_typical_mistakes_are_refused_without_heavy_imports_and_leave_nothing_behind(tmp_path: Path) -> None:
    steps = [(WITHOUT_ANY, ()), (WITH_HYDRA, ("hydra",))]
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


def test_a_misspelt_option_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "norms_small", "--plann"]) == 2
    assert "--plann is not an option (did you mean --plan?)" in capsys.readouterr().err
    assert main(["study", "norms_small", "--frobnicate"]) == 2
    assert "did you mean" not in capsys.readouterr().err
