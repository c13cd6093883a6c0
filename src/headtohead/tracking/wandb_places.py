"""Where W&B's files of a run lie: in its folder, or where WANDB_DIR says, with a link in its folder."""

from __future__ import annotations

import logging
from pathlib import Path

from headtohead.tracking.artifacts import forget_artifacts
from headtohead.tracking.store import RunFolder
from headtohead.tracking.syncing import SUPERSEDED
from headtohead.tracking.wandb_settings import setting

_log = logging.getLogger(__name__)


def root_of_files(folder: RunFolder) -> Path:
    """Return WANDB_DIR where it can be written, else the run folder."""
    root = Path(setting("root_dir") or folder.path).expanduser().absolute()
    folder.wandb.mkdir(exist_ok=True)
    try:
        (root / "wandb").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning("WANDB_DIR=%s cannot be written (%s): W&B's files go into the run folder", root, error.strerror)
        return folder.path
    return root


def linked(directory: Path, folder: RunFolder) -> Path:
    """Return the same directory as a path in the run folder, by which `h2h sync` finds it."""
    link = folder.wandb / directory.name
    if not link.exists():
        link.symlink_to(directory)
    return link


def set_aside(folder: RunFolder) -> None:
    """Move W&B's files of earlier starts away from `h2h sync`: every start sends the whole history that W&B lacks."""
    forget_artifacts(folder)
    for earlier in [*folder.wandb.glob("run-*"), *folder.wandb.glob("offline-run-*")]:
        kept = folder.wandb / SUPERSEDED
        kept.mkdir(exist_ok=True)
        earlier.rename(kept / earlier.name)
