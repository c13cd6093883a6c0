"""Estimate the disk space of a run before it starts: checkpoints by their contents, the rest by typical sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.config.run_config import RunConfig
from headtohead.training.memory import kept_state

Config = Mapping[str, Any]
_BYTES = {"64-true": 8, "bf16-true": 2, "16-true": 2}
_RECORD_BYTES = 50_000
"""The record, its configuration and the log."""
_ROW_BYTES = 300
"""The bytes of one line of metrics."""
_MAP_BYTES = 280
"""The bytes of each weight of a map: its picture and the number itself."""


def retained_bytes(config: Config, parameters: float) -> float:
    """Return the bytes that a finished run leaves."""
    best, last = _checkpoints(config, parameters)
    checkpoints = {"all": best + last, "best": best, "last": last, "none": 0.0}[RunConfig(config).keep_checkpoints]
    return checkpoints + _RECORD_BYTES + _metrics(config) + _maps(config)


def temporary_bytes(config: Config, parameters: float) -> float:
    """The checkpoints of a run while it trains, whatever is kept of them."""
    return sum(_checkpoints(config, parameters))


def _checkpoints(config: Config, parameters: float) -> tuple[float, float]:
    """The best holds weights; the last what training resumes from: weights, an average of them, and the state."""
    run = RunConfig(config)
    weights = parameters * _BYTES.get(run.precision or "", 4)
    averaged = 1 if run.weight_averaging else 0
    return weights, weights * (1 + averaged + kept_state(run.optimizer).most)


def _metrics(config: Config) -> float:
    run = RunConfig(config)
    return _ROW_BYTES * run.max_steps * (1 / run.log_every + 1 / run.validate_every)


def _maps(config: Config) -> float:
    """Return the size of the attention maps at the probe's length; twice that if W&B has its own copy."""
    run = RunConfig(config)
    probe = run.probe
    if not (probe.get("at_end") or probe.get("every")):
        return 0.0
    times = bool(probe.get("at_end")) + (run.max_steps // probe["every"] if probe.get("every") else 0)
    weights = (run.num_layers or 1) * (run.num_heads or 1) * probe["samples"] * probe["max_length"] ** 2
    copies = 1 if run.tracking.get("mode") == "none" else 2
    return float(times * weights * copies * _MAP_BYTES)
