"""Records and checkpoints as artifacts of W&B, on request: taken from a run's folder when it is over."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.tracking.connection import TrackingSettings
from headtohead.tracking.store import RECORD, TOKENIZER, RunFolder

_TEXTS = (RECORD, "config.yaml", TOKENIZER, "metrics.csv")
_MEGABYTE = 2**20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parcel:
    """What becomes one artifact: its files by the names that they have in it."""

    kind: str
    files: Mapping[str, Path]
    days: float | None
    """After which W&B may drop it; None for never."""


def wanted(run: RunFolder) -> TrackingSettings:
    """What the run was told of tracking."""
    told = run.read_record_as_written().config.get("tracking") or {}
    known = TrackingSettings.__dataclass_fields__
    return TrackingSettings(**{name: value for name, value in told.items() if name in known})


def wait(run: RunFolder) -> bool:
    """Whether artifacts were asked for that W&B's server does not have yet."""
    return not _marker(run).exists() and bool(wanted(run).artifacts)


def mark_artifacts(run: RunFolder) -> None:
    _marker(run).touch()


def forget_artifacts(run: RunFolder) -> None:
    """A run that goes on gets new ones."""
    _marker(run).unlink(missing_ok=True)


def parcels(run: RunFolder, place: Path) -> list[Parcel]:
    """What to send; `place` takes copies of texts, without the path of the home folder."""
    settings = wanted(run)
    collected = {
        "record": lambda: {name: _cleaned(run.path / name, place) for name in _TEXTS if (run.path / name).exists()},
        "checkpoint": lambda: {file.name: file for file in sorted(run.checkpoints.glob("*.ckpt"))},
    }
    found = []
    for kind in settings.artifacts:
        files = collected[kind]()
        size = sum(file.stat().st_size for file in files.values()) / _MEGABYTE
        if size > settings.artifact_megabytes:
            _log.warning(
                "the %s of %s stays here: it takes %.1f MB, and tracking.artifact_megabytes=%g",
                *(kind, run.id, size, settings.artifact_megabytes),
            )
        elif files:
            found.append(Parcel(kind, files, settings.artifact_days))
    return found


def log_parcel(parcel: Parcel, run: Any) -> None:
    """Into a W&B run; files stay where they are."""
    from datetime import timedelta

    import wandb

    artifact = wandb.Artifact(f"{parcel.kind}-{run.id}", type=parcel.kind)
    if parcel.days is not None:
        artifact.ttl = timedelta(days=parcel.days)
    for name, file in parcel.files.items():
        artifact.add_file(str(file), name=name, policy="immutable", skip_cache=True)
    run.log_artifact(artifact)


def _cleaned(file: Path, place: Path) -> Path:
    """Secrets are masked in it since it was written."""
    place.mkdir(parents=True, exist_ok=True)
    copy = place / file.name
    home = rf"{re.escape(str(Path.home()))}(?=[/\s\"',\]}}]|$)"
    copy.write_text(re.sub(home, "~", file.read_text(encoding="utf-8")), encoding="utf-8", newline="")
    return copy


def _marker(run: RunFolder) -> Path:
    return run.wandb / "artifacts.synced"
