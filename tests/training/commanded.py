"""The command line in a process that has all its modules already, and so begins within milliseconds; on request a CPU
computes in 16-mixed there, by the plugin and the scaler of a GPU, whose scale changes every few steps."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.plugins import MixedPrecision

from headtohead.cli import main
from headtohead.training import trainer

MODULES = [
    "commanded",
    "headtohead.api",
    "headtohead.cli.train",
    "headtohead.cli.run_summary",
    "headtohead.training.run",
]


def started(arguments: list[str], cache: Path, message: Path, *, halved: bool) -> BaseProcess:
    """A process of a group of its own, which writes what it says into a file."""
    context = get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    process = context.Process(target=_run, args=(arguments, str(cache), str(message), halved))
    process.start()
    return process


def _run(arguments: list[str], cache: str, message: str, halved: bool) -> None:
    os.setsid()
    handle = os.open(message, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ["HEADTOHEAD_CACHE"] = cache
    if halved:
        setattr(trainer, "Trainer", with_scaler)  # noqa: B010
    sys.exit(main(arguments))


def with_scaler(**arguments: Any) -> Trainer:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=7)
    arguments.pop("precision")
    return Trainer(**{**arguments, "plugins": [*arguments["plugins"], MixedPrecision("16-mixed", "cpu", scaler)]})
