"""Sweeps of almost nothing, as files say them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from headtohead.sweeps.read_sweep_file import sweep_from
from headtohead.sweeps.sweep import Sweep
from studies.small_studies import TINY

WRITTEN: dict[str, Any] = {
    "command": ["h2h", "train", "${args_no_hyphens}"],
    "method": "grid",
    "metric": {"name": "validation/loss", "goal": "minimize"},
    "parameters": {"optimizer.lr": {"values": [1e-05, 0.001]}, "model/norm": {"values": ["layer_norm", "rms_norm"]}},
}


def small_sweep(*overrides: str, **changes: Any) -> Sweep:
    return sweep_from("small", {**WRITTEN, **changes}, overrides)


def written_sweep(folder: Path, **changes: Any) -> Path:
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump({**WRITTEN, **changes}))
    return file


def tiny(folder: Path, *more: str, without: str = "nothing") -> tuple[str, ...]:
    """Overrides of runs that take less than a second."""
    return (*(override for override in TINY if not override.startswith(without)), f"output_dir={folder}", *more)
