"""Uploading what W&B's server lacks of a run, once, by W&B's own client."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headtohead.errors import UsageError
from headtohead.tracking.artifacts import log_parcel, mark_artifacts, parcels, wait
from headtohead.tracking.connection import logged_in, server_url, unreachable
from headtohead.tracking.syncing import Pending, mark_uploaded, marker, was_begun
from headtohead.tracking.wandb_files import Address, address_of, artifacts_in, is_whole, write_rest
from headtohead.tracking.wandb_missing import complete, missing_rows

_CONNECT_TIMEOUT = 5.0
_PAGE = re.compile(r"https?://\S+/runs/\S+")
_TROUBLE = re.compile(r"(?:ERROR|Fatal error)\s*(.*)")
_REST, _APART = "rest.wandb", "artifacts"
_READING_TIMEOUT, _WRITING_TIMEOUT = 60, 10.0


@dataclass(frozen=True)
class Upload:
    """What became of it: the run's page, or what went wrong."""

    url: str | None = None
    trouble: str | None = None


def check_server() -> None:
    """A ValueError where nothing can be uploaded."""
    if not logged_in():
        raise UsageError(f"no key for {server_url()} is known here: `wandb login`, or set WANDB_API_KEY")
    if trouble := unreachable(server_url(), timeout=_CONNECT_TIMEOUT):
        raise UsageError(f"{server_url()} cannot be reached ({trouble}): all is still on disk, try again later")


def upload(what: Pending, *, timeout: float) -> Upload:
    """Of one run what the server lacks; it is marked as uploaded if that went well."""
    try:
        _await_the_end_of(what.file)
        begun = was_begun(what) or marker(what.file).exists()
        if rows := missing_rows(what.run, what.file):
            complete(what.run, what.file, rows)
        held = _held(what) if begun else None
    except Exception as error:  # whatever the server answers, or does not
        said = _last_line(str(error), type(error).__name__)
        return Upload(trouble=f"{server_url()} does not tell what it has of the run: {said}")
    return upload_from(what, held=held, timeout=timeout)


def upload_from(what: Pending, *, held: int | None, timeout: float) -> Upload:
    """Where it is known that the server has the rows up to this number; None where it has nothing of the run."""
    rest, apart = what.file.with_name(_REST), what.file.with_name(_APART)
    try:
        with tempfile.TemporaryDirectory(prefix="h2h-") as aliases:
            artifacts = _artifacts(what, apart, Path(aliases)) if wait(what.run) else []
            if held is not None or artifacts:
                write_rest(what.file, rest, held=-1 if held is None else held, added=artifacts)
            done = _sync(rest if rest.exists() else what.file, timeout=timeout)
    finally:
        shutil.rmtree(apart, ignore_errors=True)
        for left in what.file.parent.glob(f"{_REST}*"):
            left.unlink()
    if done.trouble is None:
        mark_uploaded(what.file.parent)
        mark_artifacts(what.run)
    else:
        marker(what.file).unlink(missing_ok=True)  # W&B's client leaves it where a server refuses in the middle, too
    return done


def _artifacts(what: Pending, apart: Path, aliases: Path) -> list[bytes]:
    """As W&B's client writes them offline: online it asks the server, and waits for its answer however long."""
    import wandb

    _await_the_end_of(what.file)
    found, address = parcels(what.run, apart / "texts"), address_of(what.file)
    if not found or address is None:
        return []
    quiet = wandb.Settings(
        console="off", silent=True, disable_git=True, host="", username="", program="h2h",
        x_disable_machine_info=True, x_disable_stats=True, x_save_requirements=False,
    )  # fmt: skip
    with wandb.init(mode="offline", id=address.id, project=address.project, dir=str(apart), settings=quiet) as run:
        for parcel in found:
            log_parcel(parcel, run)
    (file,) = apart.glob("wandb/offline-run-*/run-*.wandb")
    _await_the_end_of(file)
    return artifacts_in(file, aliases=aliases)


def _await_the_end_of(file: Path) -> None:
    """W&B's service writes a little longer than its client waits; of a run that was killed nothing more comes."""
    while not is_whole(file) and time.time() - file.stat().st_mtime < _WRITING_TIMEOUT:
        time.sleep(0.02)


def _held(what: Pending) -> int | None:
    """The number of the last row that the server has; None for a run that it cannot know."""
    address = address_of(what.file)
    return None if address is None else _last_row(address)


def _last_row(address: Address) -> int | None:
    """The number of the last row of a run that the server holds; None where it knows no such run."""
    import wandb
    from wandb.apis.public.runs import RunNotFoundError
    from wandb.errors import CommError

    try:
        run = wandb.Api(timeout=_READING_TIMEOUT).run(
            "/".join(part for part in (address.entity, address.project, address.id) if part)
        )
    except CommError as error:
        if isinstance(error.exc, RunNotFoundError):
            return None
        raise
    return int(run.lastHistoryStep)


def _sync(file: Path, *, timeout: float) -> Upload:
    """W&B's client would go on for hours where a server fails: it is ended after `timeout` seconds."""
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", str(file)]
    with subprocess.Popen(
        command,
        cwd=file.parent,
        env={**os.environ, "WANDB_ERROR_REPORTING": "false", "WANDB_BASE_URL": server_url()},
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
    if (found := _TROUBLE.search(said)) or process.returncode or not marker(file).exists():
        last = _last_line(said, f"wandb sync ended with {process.returncode}")
        return Upload(trouble=found.group(0).strip() if found else last)
    page = _PAGE.search(said)
    return Upload(url=page.group(0) if page else None)


def _last_line(said: str, otherwise: str) -> str:
    return (said.strip().splitlines() or [otherwise])[-1].strip()
