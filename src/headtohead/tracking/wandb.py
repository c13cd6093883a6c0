"""Weights & Biases as a view of the run: the only door to it, and nothing that happens behind it costs a run."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from headtohead.errors import UsageError
from headtohead.tasks.tables import Table
from headtohead.tracking.agent import sweep_id, unlocked, with_swept
from headtohead.tracking.artifacts import wait
from headtohead.tracking.connection import (
    Decision,
    TrackingSettings,
    decide,
    entity_of,
    logged_in,
    project_of,
    server_url,
    unreachable,
)
from headtohead.tracking.extremes import Extremes
from headtohead.tracking.record import Progress, RunRecord, Status, WandbLink
from headtohead.tracking.rows import Medium, RowNumbers, in_rows
from headtohead.tracking.secrets import mask_secrets, without_home
from headtohead.tracking.stopping import why_ended_early
from headtohead.tracking.store import RunFolder
from headtohead.tracking.syncing import Pending, everything_arrived, mark_uploaded
from headtohead.tracking.telling import beside_config, group_of, job_of, tags_of
from headtohead.tracking.tracker import NoTracker, Tracker
from headtohead.tracking.uploading import upload_from
from headtohead.tracking.wandb_files import ALL_ROWS
from headtohead.tracking.wandb_identity import settle_id
from headtohead.tracking.wandb_missing import lost_sentences
from headtohead.tracking.wandb_places import linked, root_of_files, set_aside
from headtohead.tracking.wandb_rows import define_axes, send
from headtohead.tracking.wandb_runs import summary_of

WandbMode = Literal["online", "offline"]
_LONGEST_NAME = 128  # W&B's limit
_READING_CONNECT_TIMEOUT, _READING_TIMEOUT = 5.0, 30
_WRITING_TIMEOUT = 60.0
"""Seconds for the last rows to reach the disk where no server is asked: only a machine that is busy delays them."""
_EXIT_CODES: dict[Status, int] = {"finished": 0, "interrupted": 255}

_log = logging.getLogger(__name__)


class WandbTracker(Tracker):
    """One W&B run, online or offline."""

    def __init__(self, run: Any, *, mode: WandbMode, folder: RunFolder, finish_timeout: float) -> None:
        super().__init__()
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
        self._guarded(define_axes, run)

    def replay(self, folder: RunFolder) -> None:
        """Send what the record has and W&B lacks: on a resume, whatever was lost on the way."""
        for row in folder.metrics_file.rows():
            self.log(row.progress, row.values)

    def log(self, progress: Progress, values: Mapping[str, float]) -> None:
        self._extremes.take(values)
        self._tell(progress, values, "numbers")
        if any(name.startswith("validation/") for name in values):
            self.summary(self._extremes.told())

    def images(self, progress: Progress, pictures: Mapping[str, Any]) -> None:
        self._tell(progress, pictures, "pictures")

    def tables(self, progress: Progress, tables: Mapping[str, Table]) -> None:
        self._tell(progress, tables, "tables")

    def summary(self, values: Mapping[str, Any]) -> None:
        if self._run is not None and values:
            self._took(self._run.summary.update, without_home(mask_secrets(dict(values))))

    def finish(self, status: Status, reason: str | None = None) -> None:
        self.summary({**self._extremes.told(), "status": status, "reason": reason or ""})
        run, self._opened, self._run = self._opened, None, None
        if run is None:
            return
        upload = sync_command(self._folder)
        for sentence in lost_sentences(self._lost, self._folder, upload):
            _log.warning("%s", sentence)
        try:
            run.finish(exit_code=self._exit_code(status))
        except TimeoutError:
            _log.warning("W&B did not take everything within %g s; %s uploads the rest", self._finish_timeout, upload)
        except Exception as error:  # the run is over and its record written: trouble of W&B changes nothing
            _log.warning("W&B could not finish (%s); %s uploads the run", _first_line(error), upload)
        else:
            if self.link.mode == "online" and not self._sent_the_rest():
                _log.warning("W&B did not take everything; %s uploads the rest", upload)

    def _sent_the_rest(self) -> bool:
        """Note what the server has; artifacts go last, by a process that ends when their time is over."""
        if not everything_arrived(self.directory):
            return False
        folder = RunFolder(self._folder)
        if not wait(folder):
            mark_uploaded(self.directory)
            return True
        try:
            (file,) = self.directory.glob("run-*.wandb")
            trouble = upload_from(Pending(folder, file), held=ALL_ROWS, timeout=self._finish_timeout).trouble
        except Exception as error:  # no room for copies, a checkpoint that someone removed ...
            trouble = _first_line(error)
        if trouble is not None:
            _log.warning("artifacts are not uploaded: %s", trouble)
        return trouble is None

    def _exit_code(self, status: Status) -> int:
        """A run that its sweep ended early is finished as far as W&B goes."""
        if status == "interrupted" and (sweep_id() or why_ended_early(self._folder)):
            return 0
        return _EXIT_CODES.get(status, 1)

    def _tell(self, progress: Progress, values: Mapping[str, Any], medium: Medium) -> None:
        """As one row, or as one for each place in the step; none that W&B has."""
        for place, row in in_rows(values, medium).items():
            number = self._numbers.take(progress.step, row, place)
            if number is None:
                continue
            arguments = (number, progress, row, medium)
            if self._run is None or (medium != "numbers" and not self._took(send, self._run, *arguments)):
                self._lost[medium] += 1
            elif medium == "numbers":
                self._guarded(send, self._run, *arguments)
                self._lost[medium] += self._run is None

    def _took(self, call: Callable[..., Any], *arguments: Any) -> bool:
        """Whether W&B's client took it; if not, that alone is lost."""
        try:
            call(*arguments)
        except Exception as error:  # a full disk, a folder that somebody removed ...
            _log.warning("W&B did not take something (%s); the run goes on with it", _first_line(error))
            return False
        return True

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:  # whatever becomes of W&B's client or service, training goes on
            self._run = None
            _log.warning("W&B failed (%s); the run goes on with its record alone", _first_line(error))


def start(settings: TrackingSettings, record: RunRecord, folder: RunFolder, *, resumed: bool = False) -> Tracker:
    """Begin (or, `resumed`, continue) the W&B run of a record; says in one line what mode is in force.

    Call it on the first process only, when the folder's metrics are as the run will go on from. `record.wandb` is set.
    """
    decision = decide(settings)
    if decision.mode == "none":
        return NoTracker()
    settle_id(record, folder)
    tracker: WandbTracker | None = None
    if decision.mode == "online":
        try:
            tracker = _open("online", settings, record, folder, resumed)
        except Exception as error:  # wrong key, a server that never answers, no right to the project ...
            _forget_failed_start()
            decision = Decision("offline", f"{server_url()} did not take the run: {_first_line(error)}")
    if tracker is None:
        try:
            tracker = _open("offline", settings, record, folder, resumed)
        except Exception as error:  # no room, no right to start W&B's service ...
            _log.warning("W&B cannot start (%s); the run goes on with its record alone", _first_line(error))
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
        raise UsageError(f"no key for {server_url()} is known here: `wandb login`, or set WANDB_API_KEY")
    if trouble := unreachable(server_url(), timeout=_READING_CONNECT_TIMEOUT):
        raise UsageError(f"{server_url()} cannot be reached ({trouble}): compare the records on disk, or try again")
    os.environ.setdefault("WANDB_SILENT", "true")  # what it would say of logins and saved pages, we say
    import wandb

    return wandb.Api(timeout=_READING_TIMEOUT)


def sync_command(folder: Path) -> str:
    """What a user types to upload what the server lacks of a run."""
    return f"`h2h sync {os.path.relpath(folder)}`"


def _announce(decision: Decision, tracker: WandbTracker, folder: RunFolder) -> None:
    if decision.mode == "online":
        _log.info("W&B is online: %s", tracker.link.url)
    else:
        _log.info("W&B is offline (%s); upload with %s", decision.why, sync_command(folder.path))


def _open(
    mode: WandbMode, settings: TrackingSettings, record: RunRecord, folder: RunFolder, resumed: bool
) -> WandbTracker:
    # the client's reports on itself go to the server even when offline, and a server that hangs delays the exit by 10 s
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    _finish_open_run()
    set_aside(folder)
    patience = settings.finish_timeout if mode == "online" else max(settings.finish_timeout, _WRITING_TIMEOUT)
    swept = sweep_id() is not None  # under an agent, the project is the agent's
    config = _public_config(record)
    with unlocked():
        run = wandb.init(
            mode=mode,
            id=record.wandb.id,
            name=(record.name or record.id)[:_LONGEST_NAME],
            project=None if swept else project_of(settings),
            entity=None if swept else entity_of(settings),
            group=group_of(record)[:_LONGEST_NAME],
            job_type=job_of(record),
            tags=tags_of(record),
            notes=record.notes,
            config=config,
            dir=str(root_of_files(folder)),
            # offline W&B knows no resuming: a new file with the whole history replaces the old one
            resume="allow" if resumed and mode == "online" else None,
            settings=_settings(settings, record, patience),
        )
    return WandbTracker(run, mode=mode, folder=folder, finish_timeout=patience)


def _settings(settings: TrackingSettings, record: RunRecord, patience: float) -> Any:
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
        x_save_requirements=False,
        host="",
        username="",
        program="h2h",
    )


def _public_config(record: RunRecord) -> dict[str, Any]:
    config = {**with_swept(record.config), **beside_config(record)}
    result: dict[str, Any] = without_home(mask_secrets(config))
    return result


def _finish_open_run() -> None:
    """W&B has one open run per process, which a second start would write into."""
    import wandb

    if wandb.run is not None:
        try:
            wandb.run.finish()
        except Exception as error:  # the earlier run's trouble is none of this one's
            _log.warning("W&B could not finish an earlier run of this process (%s)", _first_line(error))


def _forget_failed_start() -> None:
    """End W&B's service, which still holds the run's id, so that the same run can start again offline."""
    import wandb

    wandb.teardown(exit_code=1)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0][:200]
