"""Every value that a sweep file names is one that a run takes."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

import headtohead as h2h

SWEEPS = Path(__file__).parents[2] / "sweeps"


def command_lines(sweep: dict[str, Any]) -> list[list[str]]:
    """What an agent appends for each point of a grid: name=value, without hyphens."""
    names = list(sweep["parameters"])
    choices = [spec.get("values", [spec.get("value")]) for spec in sweep["parameters"].values()]
    return [[f"{name}={value}" for name, value in zip(names, point, strict=True)] for point in product(*choices)]


@pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_point_of_a_sweep_composes(path: Path) -> None:
    sweep = yaml.safe_load(path.read_text())
    assert sweep["command"][-1] == "${args_no_hyphens}"
    for overrides in command_lines(sweep):
        config = h2h.compose("train", overrides)
        assert config["choices"]["model/position"] in overrides[1]
