"""Uploading what W&B's server lacks of a run, once, by W&B's own client."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headtohead.tracking.connection import logged_in, server_url, unreachable
from headtohead.tracking.syncing import Pending, mark_uploaded, marker, was_begun
from headtohead.tracking.wandb import reading_api
from headtohead.tracking.wandb_files import Address, address_of, write_rest

_CONNECT_TIMEOUT = 5.0
_PAGE = re.compile(r"https?://\S+/runs/\S+")
_TROUBLE = re.compile(r"(?:ERROR|Fatal error)\s*(.*)")
_REST = "rest.wandb"


@dataclass(frozen=True)
class Upload:
    """What became of it: the run's page, or what went wrong."""

    url: str | None = None
    trouble: str | None = None


def check_server() -> None:
    """A ValueError where nothing can be uploaded."""
    if not logged_in():
        raise ValueError(f"no key for {server_url()} is known here: `wandb login`, or set WANDB_API_KEY")
    if trouble := unreachable(server_url(), timeout=_CONNECT_TIMEOUT):
        raise ValueError(f"{server_url()} cannot be reached ({trouble}): all is still on disk, try again later")


def upload(what: Pending, *, timeout: float) -> Upload:
    """Of one file what the server lacks; it is marked as uploaded if that went well."""
    rest = what.file.with_name(_REST)
    try:
        held = _held(what)
    except Exception as error:  # whatever the server answers, or does not
        said = _last_line(str(error), type(error).__name__)
        return Upload(trouble=f"{server_url()} does not tell what it has of the run: {said}")
    try:
        if held is not None:
            write_rest(what.file, rest, held=held)
        done = _sync(what.file if held is None else rest, timeout=timeout)
    finally:
        for left in what.file.parent.glob(f"{_REST}*"):
            left.unlink()
    if done.trouble is None:
        mark_uploaded(what.file.parent)
    else:
        marker(what.file).unlink(missing_ok=True)  # W&B's client leaves it where a server refuses in the middle, too
    return done


def _held(what: Pending) -> int | None:
    """The number of the last row that the server has; None for a run that it cannot know."""
    address = address_of(what.file) if was_begun(what) else None
    return None if address is None else _last_row(address)


def _last_row(address: Address) -> int | None:
    """The number of the last row of a run that the server holds; None where it knows no such run."""
    api = reading_api()
    from wandb.apis.public.runs import RunNotFoundError
    from wandb.errors import CommError

    try:
        run = api.run("/".join(part for part in (address.entity, address.project, address.id) if part))
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
    if (found := _TROUBLE.search(said)) or process.returncode or not marker(file).exists():
        last = _last_line(said, f"wandb sync ended with {process.returncode}")
        return Upload(trouble=found.group(0).strip() if found else last)
    page = _PAGE.search(said)
    return Upload(url=page.group(0) if page else None)


def _last_line(said: str, otherwise: str) -> str:
    return (said.strip().splitlines() or [otherwise])[-1].strip()
