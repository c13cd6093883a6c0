"""Start and end W&B's client: its settings, the configuration that it receives, one run at a time; and capture what
the run prints, for its page."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from headtohead.records.record import RunRecord
from headtohead.records.secrets import clean_text, mask_secrets, without_home
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.registered_sweeps import with_swept
from headtohead.wandb_client.run_metadata import beside_config

_log = logging.getLogger(__name__)
_REPORTS = "WANDB_ERROR_REPORTING"


def client_settings(settings: TrackingSettings, record: RunRecord, patience: float) -> Any:
    """Return what W&B's client is told: to be quick, quiet, and to send nothing that names a person or a machine."""
    import wandb

    return wandb.Settings(
        init_timeout=settings.init_timeout,
        finish_timeout=patience,
        finish_timeout_raises=True,
        x_transaction_log_flush_interval=1.0,  # a kill loses a second, not fifteen
        console="off",
        silent=True,
        disable_git=True,
        git_commit=record.environment.git_commit,
        x_disable_meta=True,  # holds the host's name, the user's and the command line
        x_disable_stats=not settings.system_metrics,
        x_save_requirements=settings.console,
        host="",
        username="",
        program="h2h",
    )


def import_lean_client() -> None:
    """Import W&B's client without its reports on itself, unless the user wants them, and without pandas."""
    # they go to the server even when offline, through requests, and a server that hangs delays the exit by 10 s
    os.environ.setdefault(_REPORTS, "false")
    import wandb

    if os.environ[_REPORTS] == "false":
        with suppress(ImportError, AttributeError):  # versions that have no such reports
            from wandb.analytics.opentelemetry import opentelemetry_proxy

            opentelemetry_proxy.disable()
    if "pandas" not in sys.modules:
        wandb.util.pd_available = False  # it then knows a table of pandas by the name of its type


def public_config(record: RunRecord) -> dict[str, Any]:
    """Return the configuration as W&B shows it, without secrets and home folder."""
    config = {**with_swept(record.config), **beside_config(record)}
    result: dict[str, Any] = without_home(mask_secrets(config))
    return result


def finish_open_run() -> None:
    """W&B has one open run per process, which a second start would write into."""
    import wandb

    if wandb.run is not None:
        try:
            wandb.run.finish()
        except Exception as error:  # the earlier run's trouble is none of this one's
            _log.warning("W&B could not finish an earlier run of this process (%s)", first_line(error))


def forget_failed_start() -> None:
    """End W&B's service, which still holds the run's id, so that the same run can start again offline."""
    import wandb

    wandb.teardown(exit_code=1)


def first_line(error: Exception) -> str:
    """Return what an error says, short enough for a warning."""
    return (str(error) or type(error).__name__).strip().splitlines()[0][:200]


_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and movements of the cursor."""
_LONGEST = 10_000
_TOO_LONG = f"[a line of more than {_LONGEST} letters]"
"""The words in the place of such a line: if it were cut, half of a secret could be left."""


class ConsoleLog:
    """Takes every whole line of standard output and standard error from `start` to `stop`.

    The `write` of the streams themselves is followed, so that handlers that hold them are heard too.
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._rest: dict[int, str] = {}
        self._undo: list[Callable[[], None]] = []
        self._is_taking = False

    def start(self) -> None:
        """Follow both streams; one that cannot be followed is left alone."""
        for stream in {id(one): one for one in (sys.stdout, sys.stderr) if one is not None}.values():
            try:
                self._follow(stream)
            except AttributeError:  # a stream of somebody's own with fixed attributes
                continue

    def stop(self) -> None:
        """Give the streams back, and take what stands in a line that was not ended."""
        while self._undo:
            self._undo.pop()()
        for key in list(self._rest):
            self._heard(key, "\n" if self._rest[key] else "")

    def _follow(self, stream: TextIO) -> None:
        write, own = stream.write, "write" in vars(stream)

        def heard(text: str) -> int:
            written = write(text)
            self._heard(id(stream), text)
            return written

        def undo() -> None:
            if own:
                stream.write = write  # type: ignore[method-assign]
            else:
                del stream.write

        stream.write = heard  # type: ignore[method-assign]
        self._undo.append(undo)

    def _heard(self, key: int, text: str) -> None:
        if self._is_taking:  # what the taker itself prints
            return
        *lines, rest = (self._rest.get(key, "") + text).split("\n")
        self._rest[key] = _last_drawn(rest)[-_LONGEST:]
        self._is_taking = True
        try:
            for line in lines:
                shown = _last_drawn(line)
                self._take(_TOO_LONG if len(shown) >= _LONGEST else clean_text(_ESCAPE.sub("", shown)))
        except Exception:  # nothing that a run prints may cost the run
            self._rest.clear()
            self._take = _nothing
        finally:
            self._is_taking = False


def _last_drawn(line: str) -> str:
    """Return the last state of a progress bar that is redrawn on one line."""
    return line.rstrip("\r").rpartition("\r")[2]


def _nothing(line: str) -> None:
    del line
