"""Uploading what the W&B server has not seen yet of runs, from Python."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headtohead.api.error_translation import python_errors
from headtohead.api.result import Result
from headtohead.errors import UsageError
from headtohead.ranges import Seconds
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.missing_rows import uploads_needed
from headtohead.wandb_client.pending_uploads import Pending, runs_with_files
from headtohead.wandb_client.run_metadata import original_of
from headtohead.wandb_client.upload import check_server, upload

SyncStatus = Literal["complete", "left out", "unreadable", "to upload", "uploaded", "failed"]


@dataclass(frozen=True)
class SyncedRun:
    """A synced run is one that a sync looked at, with what became of it."""

    path: str
    status: SyncStatus
    detail: str = ""
    """The address of the page where it was uploaded, otherwise the reason."""


@dataclass(frozen=True)
class Synced(Result):
    """The runs that a sync looked at, a row for each."""

    runs: Sequence[SyncedRun]
    """The runs, those without anything to upload first."""
    is_dry_run: bool = False
    """Whether nothing was uploaded."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        """Return counts: 2 runs uploaded, 1 failed, 3 there already."""
        statuses = [run.status for run in self.runs]
        num_failed = statuses.count("failed") + statuses.count("unreadable")
        num_done = statuses.count("to upload" if self.is_dry_run else "uploaded")
        done = f"{num_done} run{'' if num_done == 1 else 's'} {'to upload' if self.is_dry_run else 'uploaded'}"
        failed = [f"{num_failed} failed"] if num_failed else []
        return ", ".join([done, *failed, f"{statuses.count('complete')} there already"])

    @property
    def has_failed(self) -> bool:
        """Return whether a run could not be read or uploaded."""
        return any(run.status in ("failed", "unreadable") for run in self.runs)

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [{"run": run.path, "status": run.status, "detail": run.detail} for run in self.runs]


@python_errors
def sync(
    paths: str | Path | Sequence[str | Path] = "outputs", *, dry_run: bool = False, timeout: Seconds = 300.0
) -> Synced:
    """Upload the runs below folders that W&B's server does not have, or has only in part: `sync("outputs").to_frame()`.

    Nothing is sent a second time; a run that still trains is left out. `dry_run` uploads nothing and says what it
    would; one run may take `timeout` seconds.
    """
    folders = [paths] if isinstance(paths, str | Path) else paths
    runs = synced_runs([Path(folder) for folder in folders], dry_run=dry_run, timeout=timeout)
    return Synced(list(runs), dry_run)


def synced_runs(folders: Sequence[Path], *, dry_run: bool, timeout: float) -> Iterator[SyncedRun]:
    """Yield first the runs of which there is nothing to upload, then the others, each once it is uploaded."""
    waiting: dict[Path, Pending] = {}
    for folder in folders:
        if not folder.is_dir():
            state = "is not a folder" if folder.exists() else "does not exist"
            raise UsageError(f"{folder} {state}: name a folder of runs")
        for run, files in runs_with_files(folder):
            try:
                if why := _why_left_out(run):
                    yield SyncedRun(_short(run), "left out", why)
                    continue
                needed = uploads_needed(run, files)
            except (UsageError, OSError) as error:
                yield SyncedRun(_short(run), "unreadable", str(error))
                continue
            if not needed:
                yield SyncedRun(_short(run), "complete")
            waiting |= {what.file: what for what in needed}
    if waiting and not dry_run:
        check_server()
    for what in waiting.values():
        yield SyncedRun(_short(what.run), "to upload") if dry_run else _uploaded(what, timeout)


def _why_left_out(run: RunFolder) -> str | None:
    if run.is_live():
        return "it is still running"
    original = original_of(run.path, run.read_record_as_written().wandb)
    return None if original is None else f"a copy of {os.path.relpath(original)}"


def _uploaded(what: Pending, timeout: float) -> SyncedRun:
    done = upload(what, timeout=timeout)
    if done.trouble is not None:
        return SyncedRun(_short(what.run), "failed", done.trouble)
    return SyncedRun(_short(what.run), "uploaded", done.url or "")


def _short(run: RunFolder) -> str:
    return os.path.relpath(run.path)
