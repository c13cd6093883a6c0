"""W&B's own settings in W&B's order: the environment, then wandb/settings in the folder, then the user's file."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import Literal

Name = Literal[
    "mode", "project", "entity", "base_url",
    "run_name", "run_group", "run_tags", "run_notes", "run_job_type", "root_dir",
]  # fmt: skip
VARIABLES: dict[Name, str] = {
    "mode": "WANDB_MODE",
    "project": "WANDB_PROJECT",
    "entity": "WANDB_ENTITY",
    "base_url": "WANDB_BASE_URL",
    "run_name": "WANDB_NAME",
    "run_group": "WANDB_RUN_GROUP",
    "run_tags": "WANDB_TAGS",
    "run_notes": "WANDB_NOTES",
    "run_job_type": "WANDB_JOB_TYPE",
    "root_dir": "WANDB_DIR",
}
"""By the name that a settings file has for it."""


def setting(name: Name) -> str | None:
    """Return what the user has set for W&B's client, `wandb offline` in this folder among it; None where nothing is."""
    if value := os.environ.get(VARIABLES[name]):
        return value
    root = Path(os.environ.get("WANDB_DIR") or ".").expanduser()
    folder = root / (".wandb" if (root / ".wandb").exists() else "wandb")
    own = Path(os.environ.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    return next((value for file in (folder, own) if (value := _read(file / "settings", name))), None)


def _read(file: Path, name: str) -> str | None:
    """A file that W&B's client could not read either says nothing."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(file, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None
    return parser.get("default", name, fallback=None)
