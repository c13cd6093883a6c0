"""Runs of which W&B's server lacks something: finding them on disk, and uploading each once, by W&B's own client."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headtohead.tracking.connection import logged_in, server_url, unreachable
from headtohead.tracking.store import RunFolder, find_runs

_CONNECT_TIMEOUT = 5.0
_PAGE = re.compile(r"https?://\S+/runs/\S+")
_TROUBLE = re.compile(r"(?:ERROR|Fatal error)\s*(.*)")


@dataclass(frozen=True)
class Pending:
    """A start of a run whose file the server does not hold whole."""

    run: RunFolder
    file: Path


@dataclass(frozen=True)
class Upload:
    """What became of it: the run's page, or what went wrong."""

    url: str | None = None
    trouble: str | None = None


def mark_uploaded(directory: Path) -> None:
    """As `wandb sync` does it, so that neither uploads again what the other has uploaded."""
    for file in directory.glob("run-*.wandb"):
        _marker(file).touch()


def everything_arrived(directory: Path) -> bool:
    """Whether W&B's client, which gives up in silence where it is refused, noted no failure in its log."""
    with contextlib.suppress(OSError):
        return '"level":"ERROR' not in (directory / "logs" / "debug-internal.log").read_text(encoding="utf-8")
    return False


def runs_with_files(root: Path) -> Iterator[tuple[RunFolder, list[Path]]]:
    """Runs with the files that hold their whole history; files of earlier starts lie in `superseded`."""
    for run in find_runs(root):
        files = [*run.wandb.glob("run-*/run-*.wandb"), *run.wandb.glob("offline-run-*/run-*.wandb")]
        if files:
            yield run, sorted(file for file in files if not file.parent.is_symlink())


def pending(run: RunFolder, files: list[Path]) -> list[Pending]:
    return [Pending(run, file) for file in files if not _marker(file).exists()]


def check_server() -> None:
    """A ValueError where nothing can be uploaded."""
    if not logged_in():
        raise ValueError(f"no key for {server_url()} is known here: `wandb login`, or set WANDB_API_KEY")
    if trouble := unreachable(server_url(), timeout=_CONNECT_TIMEOUT):
        raise ValueError(f"{server_url()} cannot be reached ({trouble}): all is still on disk, try again later")


def upload(what: Pending, *, timeout: float) -> Upload:
    """Of one file; W&B's client would go on for hours where a server fails, so it is ended after `timeout` seconds."""
    directory = what.file.parent
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", str(directory)]
    with subprocess.Popen(
        command,
        cwd=what.run.path,
        env={**os.environ, "WANDB_ERROR_REPORTING": "false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its service too, which would go on alone
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return Upload(trouble=f"{server_url()} did not take it within {timeout:g} s")
    if (found := _TROUBLE.search(said)) or process.returncode or not _marker(what.file).exists():
        _marker(what.file).unlink(missing_ok=True)
        last = said.strip().splitlines()[-1:] or [f"wandb sync ended with {process.returncode}"]
        return Upload(trouble=(found.group(0) if found else last[0]).strip())
    page = _PAGE.search(said)
    return Upload(url=page.group(0) if page else None)


def _marker(file: Path) -> Path:
    return file.with_name(file.name + ".synced")
