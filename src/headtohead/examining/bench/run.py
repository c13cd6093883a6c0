"""A benchmark from its configuration to its findings, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from headtohead.building.making import make
from headtohead.examining.bench.findings import Findings
from headtohead.examining.bench.plan import BenchPlan
from headtohead.examining.bench.plot import draw
from headtohead.examining.bench.sweep import Tell, sweep
from headtohead.files.writing import replace_text
from headtohead.tracking.store import new_id
from headtohead.training.devices import describe, threads


def bench(config: Mapping[str, Any], *, tell: Tell | None = None) -> Findings:
    """Measures all that the plan asks for; `tell` hears of each case as it begins."""
    plan = plan_of(config)
    with threads(config["trainer"].get("threads")):
        on_gpu = config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()
        device = describe(torch.device("cuda" if on_gpu else "cpu"), count=1)
    measurements = sweep({key: value for key, value in config.items() if key != "bench"}, plan, tell=tell)
    return Findings(plan, device, config, tuple(measurements))


def plan_of(config: Mapping[str, Any]) -> BenchPlan:
    plan: BenchPlan = make(config["bench"])
    return plan


def save(findings: Findings, output_dir: Path) -> Path:
    """bench.json and bench.png in a folder of their own, which is given back."""
    folder = output_dir / "bench" / new_id(str(findings.config["name"]))
    folder.mkdir(parents=True)
    replace_text(folder / "bench.json", json.dumps(findings.to_dict(), indent=2) + "\n")
    draw(findings, folder / "bench.png")
    return folder
