"""Sweeps of tiny runs for W&B's real commands, logged in to the tests' server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb
import yaml

from wandb_server import WandbServer
from wandb_trainings import PATIENT, TINY, environment
from warm_commands import WarmCommand

BIN = Path(sys.executable).parent
SHORT, LONG = 8, 1_000_000


def written(home: Path, parameters: Mapping[str, Any], **fields: Any) -> Path:
    """A grid, unless `fields` say otherwise."""
    tiny = [text for text in TINY if not text.startswith(("trainer.max_steps", "trainer.log_every"))]
    content = {
        "program": "h2h",
        "project": "headtohead",
        "command": ["h2h", "train", *tiny, *PATIENT, "${args_no_hyphens}"],
        "method": "grid",
        "metric": {"name": "validation/loss", "goal": "minimize"},
        "parameters": dict(parameters),
        **fields,
    }
    file = home / "small.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def started(home: Path, server: WandbServer, command: str, *arguments: str) -> WarmCommand:
    """`h2h` or `wandb`, as typed in that folder by one whose home it is; what it says is in COMMAND.log, added to."""
    own = {"PATH": os.pathsep.join((str(BIN), os.environ["PATH"])), "TMPDIR": str(home)}
    return WarmCommand(
        arguments,
        output=home / f"{command}.log",
        folder=home,
        environment={**environment(home, server.environment), **own},
        program=None if command == "h2h" else Path(wandb.__file__).with_name("__main__.py"),
    )


def message(home: Path, command: str) -> str:
    return (home / f"{command}.log").read_text()
