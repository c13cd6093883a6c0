"""Sweeps of tiny runs for W&B's real commands, logged in to the tests' server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from wandb_server import WandbServer
from wandb_trainings import PATIENT, TINY

BIN = Path(sys.executable).parent
SHORT, LONG = 8, 1_000_000


def written(home: Path, parameters: Mapping[str, Any], **fields: Any) -> Path:
    """A grid, unless `fields` say otherwise."""
    tiny = [text for text in TINY if not text.startswith(("trainer.max_steps", "trainer.log_every"))]
    content = {
        "program": "h2h",
        "project": "headtohead",
        "command": ["h2h", "train", *tiny, *PATIENT[:2], "${args_no_hyphens}"],
        "method": "grid",
        "metric": {"name": "validation/loss", "goal": "minimize"},
        "parameters": dict(parameters),
        **fields,
    }
    file = home / "small.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def started(home: Path, server: WandbServer, command: str, *arguments: str) -> subprocess.Popen[str]:
    """`wandb`, say, as typed in that folder by one whose home it is; what it says is in COMMAND.log, added to."""
    saved = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    own = {"HOME": str(home), "HEADTOHEAD_CACHE": str(home / "cache"), "OMP_NUM_THREADS": "1"}
    result = {"PATH": os.pathsep.join((str(BIN), os.environ["PATH"])), "TMPDIR": str(home)}
    with (home / f"{command}.log").open("a") as log:
        return subprocess.Popen(
            [str(BIN / command), *arguments],
            cwd=home,
            env={**saved, **own, **result, **server.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )


def message(home: Path, command: str) -> str:
    return (home / f"{command}.log").read_text()
