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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.errors import UsageError
from headtohead.wandb_client.artifacts import artifacts_of, has_pending_artifacts, log_artifact, mark_artifacts
from headtohead.wandb_client.connection import logged_in, server_url, unreachable
from headtohead.wandb_client.missing_rows import complete, has_no_record, missing_in, wait_for_end_of, write_separately
from headtohead.wandb_client.pending_uploads import Pending, mark_uploaded, marker, was_started
from headtohead.wandb_client.transaction_log import UploadTarget, address_of, artifacts_in, write_rest

_CONNECT_TIMEOUT = 5.0
_PAGE = re.compile(r"https?://\S+/runs/\S+")
_TROUBLE = re.compile(r"(?:ERROR|Fatal error)\s*(.*)")
_REST, _APART = "rest.wandb", "artifacts"
_READING_TIMEOUT = 60


@dataclass(frozen=True)
class Upload:
    """An upload is the outcome for one run: its page, or the error."""

    url: str | None = None
    trouble: str | None = None


def check_server() -> None:
    """A ValueError where nothing can be uploaded."""
    if not logged_in():
        raise UsageError(f"no key for {server_url()} is known: run `wandb login`, or set WANDB_API_KEY")
    if trouble := unreachable(server_url(), timeout=_CONNECT_TIMEOUT):
        raise UsageError(f"{server_url()} cannot be reached ({trouble}): all is still on disk, try again later")


def upload(what: Pending, *, timeout: float) -> Upload:
    """Upload what the server lacks of one run, and mark it as uploaded if that succeeds."""
    try:
        wait_for_end_of(what.file)
        was_begun = was_started(what) or marker(what.file).exists()
        missing = missing_in(what.run, what.file)
        if missing or has_no_record(what.file):
            complete(what.run, what.file, missing)
        last_on_server = _last_on_server(what) if was_begun else None
    except Exception as error:  # whatever the server answers, or does not
        message = _last_line(str(error), type(error).__name__)
        return Upload(trouble=f"{server_url()} does not tell what it has of the run: {message}")
    return upload_from(what, last_on_server=last_on_server, timeout=timeout)


def upload_from(
    what: Pending, *, last_on_server: int | None, timeout: float, clock: Callable[[], float] = time.monotonic
) -> Upload:
    """Upload from this row number on, up to which the server has the rows; None if it has nothing of the run. Wait at
    most `timeout` in all."""
    end = clock() + timeout

    def left() -> float:
        return end - clock()

    rest, apart = what.file.with_name(_REST), what.file.with_name(_APART)
    try:
        with tempfile.TemporaryDirectory(prefix="h2h-") as aliases:
            artifacts = _artifacts(what, apart, Path(aliases), left) if has_pending_artifacts(what.run) else []
            if last_on_server is not None or artifacts:
                write_rest(
                    what.file, rest, last_on_server=-1 if last_on_server is None else last_on_server, added=artifacts
                )
            done = _sync(rest if rest.exists() else what.file, timeout=left())
    finally:
        shutil.rmtree(apart, ignore_errors=True)
        for file in what.file.parent.glob(f"{_REST}*"):
            file.unlink()
    if done.trouble is None:
        mark_uploaded(what.file.parent)
        mark_artifacts(what.run)
    else:
        marker(what.file).unlink(missing_ok=True)  # W&B's client leaves it where a server refuses in the middle, too
    return done


def _artifacts(what: Pending, apart: Path, aliases: Path, left: Callable[[], float]) -> list[bytes]:
    """Write artifacts in W&B's offline form: online the client contacts the server and waits for its answer without
    limit."""
    wait_for_end_of(what.file, left())
    files, address = artifacts_of(what.run, apart / "texts"), address_of(what.file)
    if not files or address is None:
        return []

    def write(run: Any) -> None:
        for artifact in files:
            log_artifact(artifact, run)

    return artifacts_in(write_separately(address, apart, write, left), aliases=aliases)


def _last_on_server(what: Pending) -> int | None:
    """The number of the last row that the server has; None for a run that it cannot know."""
    address = address_of(what.file)
    return None if address is None else _last_row(address)


def _last_row(address: UploadTarget) -> int | None:
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
    """W&B's client would continue for hours where a server fails: it is ended after `timeout` seconds."""
    if timeout <= 0:
        return Upload(trouble="no time was left for it")
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
            output, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its service too, which would continue alone
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return Upload(trouble=f"{server_url()} did not take it within {timeout:g} s")
    if (match := _TROUBLE.search(output)) or process.returncode or not marker(file).exists():
        last = _last_line(output, f"wandb sync ended with {process.returncode}")
        return Upload(trouble=match.group(0).strip() if match else last)
    page = _PAGE.search(output)
    return Upload(url=page.group(0) if page else None)


def _last_line(output: str, otherwise: str) -> str:
    return (output.strip().splitlines() or [otherwise])[-1].strip()
