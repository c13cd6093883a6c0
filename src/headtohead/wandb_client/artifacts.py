"""Records and checkpoints at W&B, taken from a run's folder when it is over: as artifacts on request, and the record
among the files of the run's page."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import DamagedFile
from headtohead.records.run_folder import RECORD, TOKENIZER, RunFolder
from headtohead.wandb_client.connection import TrackingSettings

_TEXTS = (RECORD, "config.yaml", TOKENIZER, "metrics.csv")
_MEGABYTE = 2**20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArtifactFiles:
    """Artifact files are the files of one artifact, by their names in it."""

    kind: str
    files: Mapping[str, Path]
    days: float | None
    """The days after which W&B may drop it; None for never."""


def tracking_settings_of(run: RunFolder) -> TrackingSettings:
    """Return the tracking settings of the run."""
    settings = run.read_record_as_written().config.get("tracking") or {}
    known = TrackingSettings.__dataclass_fields__
    try:
        return TrackingSettings(**{name: value for name, value in settings.items() if name in known})
    except TypeError:
        raise DamagedFile(run.path / RECORD, "has a value of another type under config.tracking") from None


def has_pending_artifacts(run: RunFolder) -> bool:
    """Return whether requested artifacts have not reached W&B's server yet."""
    return not _marker(run).exists() and bool(tracking_settings_of(run).artifacts)


def mark_artifacts(run: RunFolder) -> None:
    _marker(run).touch()


def forget_artifacts(run: RunFolder) -> None:
    """A resumed run gets new ones."""
    _marker(run).unlink(missing_ok=True)


def artifacts_of(run: RunFolder, path: Path) -> list[ArtifactFiles]:
    """Return the requested artifacts; `path` receives copies of texts, without the path of the home folder."""
    settings = tracking_settings_of(run)
    collected = {
        "record": lambda: {name: _cleaned(run.path / name, path) for name in _TEXTS if _is_there(run, name)},
        "checkpoint": lambda: {file.name: file for file in sorted(run.checkpoints.glob("*.ckpt"))},
    }
    artifacts = []
    for kind in settings.artifacts:
        files = {name: file for name, file in collected[kind]().items() if _is_own(file, run.path, path)}
        size = sum(file.stat().st_size for file in files.values()) / _MEGABYTE
        if size > settings.artifact_megabytes:
            _log.warning(
                "the %s of %s is not uploaded: it has %.1f MB, and tracking.artifact_megabytes=%g",
                *(kind, run.id, size, settings.artifact_megabytes),
            )
        elif files:
            artifacts.append(ArtifactFiles(kind, files, settings.artifact_days))
    return artifacts


def _is_there(run: RunFolder, name: str) -> bool:
    return (run.path / name).exists() and _is_own(run.path / name, run.path)


def _is_own(file: Path, *folders: Path) -> bool:
    """Return whether a file lies in one of the folders: by a link, a stranger's run would have any file uploaded."""
    is_own = any(file.resolve().is_relative_to(folder.resolve()) for folder in folders)
    if not is_own:
        _log.warning("%s is not uploaded: it leads out of the run by a link", file)
    return is_own


def log_artifact(bundle: ArtifactFiles, run: Any) -> None:
    """Add the artifact to a W&B run without copying its files."""
    from datetime import timedelta

    import wandb

    artifact = wandb.Artifact(f"{bundle.kind}-{run.id}", type=bundle.kind)
    if bundle.days is not None:
        artifact.ttl = timedelta(days=bundle.days)
    for name, file in bundle.files.items():
        artifact.add_file(str(file), name=name, policy="immutable", skip_cache=True)
    run.log_artifact(artifact)


def link_record(run: Any, folder: Path, url: str | None = None) -> None:
    """Put the record among the files of the run's page, and say in its summary where it is."""
    copy = _cleaned(folder / RECORD, Path(run.dir))
    run.save(str(copy), base_path=run.dir, policy="now")
    run.summary["record"] = f"{url}/files/{RECORD}" if url else f"files/{RECORD}"


def _cleaned(file: Path, path: Path) -> Path:
    """Secrets are masked in it since it was written."""
    path.mkdir(parents=True, exist_ok=True)
    copy = path / file.name
    home = rf"{re.escape(str(Path.home()))}(?=[/\s\"',\]}}]|$)"
    replace_text(copy, re.sub(home, "~", file.read_text(encoding="utf-8")))
    return copy


def _marker(run: RunFolder) -> Path:
    return run.wandb / "artifacts.synced"
