"""A process that loads a checkpoint and writes how much memory that took: python memory_of_loading.py FOLDER."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import headtohead as h2h
from headtohead.config.build import make_model
from headtohead.pretrained.families import model_overrides
from headtohead.pretrained.hub_checkpoint import open_checkpoint
from headtohead.training.initial_weights import start_from


def resident(which: str) -> int:
    """Return the bytes of this process in memory, now (VmRSS) or at most since the last call of `forget` (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(which))


def forget() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main(folder: str) -> None:
    origin = f"hf:{folder}"
    config = h2h.compose("train", [*model_overrides(open_checkpoint(origin), "language_model"), "model.dropout=0"])
    make_model(h2h.compose("train", ["model.vocab_size=8"]))  # what a first model imports is not a part of this one
    start_of_model = resident("VmRSS")
    model = make_model(config)
    start_of_load = resident("VmRSS")
    forget()
    start = start_from(model, origin)
    peak = resident("VmHWM")
    sys.stdout.write(
        json.dumps({"model": start_of_load - start_of_model, "load": peak - start_of_load, "fresh": start.fresh})
    )


main(sys.argv[1])
