"""Weights & Biases as a view of the run: the only door to it, and nothing that happens behind it costs a run."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from headtohead.errors import UsageError
from headtohead.metrics.metric import MetricTable
from headtohead.records.early_stopping_marker import why_ended_early
from headtohead.records.record import Progress, RunRecord, Status, WandbLink
from headtohead.records.run_folder import RunFolder
from headtohead.records.secrets import mask_secrets, without_home
from headtohead.wandb_client.artifacts import has_pending_artifacts, link_record
from headtohead.wandb_client.client_run import (
    ConsoleLog,
    client_settings,
    finish_open_run,
    first_line,
    forget_failed_start,
    import_lean_client,
    public_config,
)
from headtohead.wandb_client.connection import (
    TrackingDecision,
    TrackingSettings,
    decide,
    entity_of,
    logged_in,
    project_of,
    server_url,
    unreachable,
)
from headtohead.wandb_client.logged_rows import Extremes, Medium, RowNumbers, define_axes, in_rows, prepared, send
from headtohead.wandb_client.missing_rows import lost_sentence
from headtohead.wandb_client.pending_uploads import (
    Pending,
    everything_arrived,
    linked,
    mark_uploaded,
    move_aside,
    root_of_files,
)
from headtohead.wandb_client.registered_sweeps import sweep_id, unlocked
from headtohead.wandb_client.run_metadata import assign_run_id, group_of, job_of, tags_of
from headtohead.wandb_client.runs_as_records import summary_of
from headtohead.wandb_client.tracker import NoTracker, Tracker
from headtohead.wandb_client.transaction_log import ALL_ROWS
from headtohead.wandb_client.upload import upload_from

WandbMode = Literal["online", "offline"]
_LONGEST_NAME = 128  # W&B's limit
_READING_CONNECT_TIMEOUT, _READING_TIMEOUT = 5.0, 30
_WRITING_TIMEOUT = 60.0
"""Seconds for the last rows to reach the disk where no server is asked: only a machine that is busy delays them."""
_EXIT_CODES: dict[Status, int] = {"finished": 0, "interrupted": 255}

_log = logging.getLogger(__name__)


class WandbTracker(Tracker):
    """One W&B run, online or offline."""

    def __init__(
        self,
        run: Any,
        *,
        mode: WandbMode,
        folder: RunFolder,
        finish_timeout: float,
        console: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._opened: Any | None = run
        self._run: Any | None = run  # None once it takes no more rows
        self._finish_timeout = finish_timeout
        directory = linked(Path(run.settings.sync_dir), folder)
        self.directory = directory
        self._folder = folder.path
        self.link = WandbLink(
            id=run.id,
            mode=mode,
            url=run.url if mode == "online" else None,
            directory=os.path.relpath(directory, folder.path),
            folder=str(folder.path),
        )
        self._numbers = RowNumbers(run.starting_step)
        self._extremes = Extremes()
        self._lost: Counter[Medium] = Counter()
        self._console = ConsoleLog(run.write_logs) if console else None
        self._guarded(define_axes, run)
        if self._console is not None:
            self._console.start()

    def replay(self, folder: RunFolder) -> None:
        """Send what the record has and W&B lacks: on a resume, whatever was lost on the way."""
        for row in folder.metrics_file.rows():
            self.log(row.progress, row.values)

    @property
    def lost(self) -> Mapping[str, int]:
        return {str(medium): count for medium, count in self._lost.items()}

    def log(self, progress: Progress, values: Mapping[str, float]) -> None:
        self._extremes.take(values)
        self._log_row(progress, values, "numbers")
        if any(name.startswith("validation/") for name in values):
            self.summary(self._extremes.as_summary())

    def images(self, progress: Progress, pictures: Mapping[str, object]) -> None:
        self._log_row(progress, pictures, "pictures")

    def tables(self, progress: Progress, tables: Mapping[str, MetricTable]) -> None:
        self._log_row(progress, tables, "tables")

    def summary(self, values: Mapping[str, object]) -> None:
        if self._run is not None and values:
            self._succeeds("the summary", self._run.summary.update, without_home(mask_secrets(dict(values))))

    def finish(self, status: Status, reason: str | None = None) -> None:
        if self._run is not None:
            self._succeeds("the record", link_record, self._run, self._folder, self.link.url)
        self.summary({**self._extremes.as_summary(), "status": status, "reason": reason or ""})
        if self._console is not None:
            self._console.stop()
        run, self._opened, self._run = self._opened, None, None
        if run is None:
            return
        upload, end = sync_command(self._folder), self._clock() + self._finish_timeout
        if lost := lost_sentence(self._lost, upload):
            _log.warning("%s", lost)
        try:
            run.finish(exit_code=self._exit_code(status))
        except TimeoutError:
            _log.warning("W&B did not accept everything within %g s; %s uploads the rest", self._finish_timeout, upload)
        except Exception as error:  # the run is over and its record written: trouble of W&B changes nothing
            _log.warning("W&B could not finish (%s); %s uploads the run", first_line(error), upload)
        else:
            if self.link.mode == "online" and not self._sent_the_rest(end):
                _log.warning("W&B did not accept everything; %s uploads the rest", upload)

    def _sent_the_rest(self, end: float) -> bool:
        """Note what the server has; artifacts go last, in the time that is left until `end`."""
        if not everything_arrived(self.directory):
            return False
        folder = RunFolder(self._folder)
        if not has_pending_artifacts(folder):
            mark_uploaded(self.directory)
            return True
        try:
            (file,) = self.directory.glob("run-*.wandb")
            left = end - self._clock()
            trouble = upload_from(
                Pending(folder, file), last_on_server=ALL_ROWS, timeout=left, clock=self._clock
            ).trouble
        except Exception as error:  # no room for copies, a checkpoint that someone removed ...
            trouble = first_line(error)
        if trouble is not None:
            _log.warning("artifacts are not uploaded: %s", trouble)
        return trouble is None

    def _exit_code(self, status: Status) -> int:
        """A run that its sweep ended early is finished as far as W&B goes."""
        if status == "interrupted" and (sweep_id() or why_ended_early(self._folder)):
            return 0
        return _EXIT_CODES.get(status, 1)

    def _log_row(self, progress: Progress, values: Mapping[str, object], medium: Medium) -> None:
        """Log the values as one row, or as one for each index in the step; skip rows that W&B already has."""
        for index, row in in_rows(values, medium).items():
            number = self._numbers.take(progress.step, row, index)
            if number is None:
                continue
            if medium == "numbers":
                if self._run is not None:
                    self._guarded(send, self._run, number, progress, row)
                self._lost[medium] += self._run is None
                continue
            made = self._prepared(number, row, medium)
            if made and self._succeeds(", ".join(made), send, self._run, number, progress, made):
                self._lost[medium] -= len(made)
            self._lost[medium] += len(row)

    def _prepared(self, number: int, row: Mapping[str, object], medium: Medium) -> dict[str, Any]:
        """Return what W&B's client takes of a row: a table or a picture that it cannot write costs itself alone."""
        made: dict[str, Any] = {}
        for name, value in row.items() if self._run is not None else ():
            self._succeeds(name, lambda one: made.update(prepared(self._run, number, one, medium)), {name: value})
        return made

    def _succeeds(self, what: str, call: Callable[..., Any], *arguments: Any) -> bool:
        """Return whether W&B's client accepted the item; if not, only this item is lost."""
        try:
            call(*arguments)
        except Exception as error:  # a full disk, a folder that somebody removed ...
            _log.warning("W&B did not accept %s (%s); the run continues", what, first_line(error))
            return False
        return True

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:  # whatever becomes of W&B's client or service, training continues
            self._run = None
            _log.warning("W&B failed (%s); the run continues with its record only", first_line(error))


def start(settings: TrackingSettings, record: RunRecord, folder: RunFolder, *, resumed: bool = False) -> Tracker:
    """Begin (or, `resumed`, continue) the W&B run of a record; says in one line what mode is in force.

    Call it on the first process only, when the folder's metrics are as the run will resume from. `record.wandb` is set.
    """
    decision = decide(settings)
    if decision.mode == "none":
        return NoTracker()
    assign_run_id(record, folder)
    tracker: WandbTracker | None = None
    if decision.mode == "online":
        try:
            tracker = _open("online", settings, record, folder, resumed)
        except Exception as error:  # wrong key, a server that never answers, no right to the project ...
            forget_failed_start()
            decision = TrackingDecision("offline", f"{server_url()} did not take the run: {first_line(error)}")
    if tracker is None:
        try:
            tracker = _open("offline", settings, record, folder, resumed)
        except Exception as error:  # no room, no right to start W&B's service ...
            _log.warning("W&B cannot start (%s); the run continues with its record only", first_line(error))
            return NoTracker()
    record.wandb = tracker.link
    _announce(decision, tracker, folder)
    if resumed:
        tracker.replay(folder)
    tracker.summary(summary_of(record))  # costs are known before the first step
    return tracker


def reading_api() -> Any:
    """W&B's own client for runs that its server holds; a ValueError where there is no way to them."""
    if not logged_in():
        raise UsageError(f"no key for {server_url()} is known: run `wandb login`, or set WANDB_API_KEY")
    if trouble := unreachable(server_url(), timeout=_READING_CONNECT_TIMEOUT):
        raise UsageError(f"{server_url()} cannot be reached ({trouble}): compare the records on disk, or try again")
    os.environ.setdefault("WANDB_SILENT", "true")  # what it would say of logins and saved pages, we say
    import wandb

    return wandb.Api(timeout=_READING_TIMEOUT)


def sync_command(folder: Path) -> str:
    """Return the command with which a user uploads what the server lacks of a run."""
    return f"`h2h sync {os.path.relpath(folder)}`"


def _announce(decision: TrackingDecision, tracker: WandbTracker, folder: RunFolder) -> None:
    if decision.mode == "online":
        _log.info("W&B is online: %s", tracker.link.url)
    else:
        _log.info("W&B is offline (%s); upload with %s", decision.why, sync_command(folder.path))


def _open(
    mode: WandbMode, settings: TrackingSettings, record: RunRecord, folder: RunFolder, resumed: bool
) -> WandbTracker:
    import_lean_client()
    import wandb

    finish_open_run()
    move_aside(folder)
    patience = settings.finish_timeout if mode == "online" else max(settings.finish_timeout, _WRITING_TIMEOUT)
    swept = sweep_id() is not None  # under an agent, the project is the agent's
    config = public_config(record)
    with unlocked():
        run = wandb.init(
            mode=mode,
            id=record.wandb.id,
            name=(record.name or record.id)[:_LONGEST_NAME],
            project=None if swept else project_of(settings),
            entity=None if swept else entity_of(settings),
            group=group_of(record)[:_LONGEST_NAME],
            job_type=job_of(record, settings),
            tags=tags_of(record),
            notes=record.notes,
            config=config,
            dir=str(root_of_files(folder)),
            # offline W&B knows no resuming: a new file with the whole history replaces the old one
            resume="allow" if resumed and mode == "online" else None,
            settings=client_settings(settings, record, patience),
        )
    return WandbTracker(run, mode=mode, folder=folder, finish_timeout=patience, console=settings.console)
