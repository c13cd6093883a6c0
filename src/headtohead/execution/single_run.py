"""One run of a study: begun, or continued where it was interrupted, always with a record that says how it ended. The
processes of a run over several devices of this machine are started together, and none outlives the first."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event, Thread
from typing import Any

from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.config.run_id import run_id
from headtohead.errors import UsageError
from headtohead.execution.run_spec import FROM_RUN, RunSpec
from headtohead.files.disk_operations import is_full
from headtohead.records.early_stopping_marker import why_ended_early
from headtohead.records.record import COUNTED, ENDED, FOUNDATION, RunRecord, Status
from headtohead.records.run_folder import RECORD, RunFolder, log_file, slug

_HOW: Mapping[Status, str] = {
    "failed": "failed", "diverged": "diverged", "out_of_memory": "ran out of memory",
    "out_of_disk": "filled the disk", "interrupted": "was interrupted",
}  # fmt: skip
DISK_FULL_BEFORE_START = 74
"""The exit code of a run's process that filled the disk: no result, and no reason to try the next run."""


def record_of(folder: Path) -> RunRecord | None:
    """Return None where the run was never begun; one whose process is gone reads as interrupted."""
    return RunFolder.open(folder).read_record() if os.path.lexists(folder / RECORD) else None


def details_of(folder: Path, run_id: str, run_folder: Path) -> str:
    """Return where a run says more about its end, seen from here: what a worker wrote, else the run's own folder."""
    log = log_file(folder, run_id)
    return os.path.relpath(log if log.is_file() else run_folder)


def ended_record(folder: Path) -> RunRecord | None:
    """Return None while it is not done."""
    record = record_of(folder)
    return record if record is not None and has_ended(record, folder) else None


def has_ended(record: RunRecord, folder: Path) -> bool:
    """Return whether the run of a record that was just read is done."""
    return record.status in ENDED or bool(record.status == "interrupted" and why_ended_early(folder))


def is_done(folder: Path) -> bool:
    return ended_record(folder) is not None


def train_run(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    """Train the run to its end, or to a record that says why it failed."""
    config = _as_run(run.config, folder, threads)
    try:
        _check_start(RunConfig(config).init_from)
        with other_processes(RunConfig(config).devices, run.id, lambda: _train(run, config, folder, budget)):
            record = _train(run, config, folder, budget)
    except Exception as error:
        if is_full(error):
            raise SystemExit(DISK_FULL_BEFORE_START) from error
        _note(run, folder, config, f"{type(error).__name__}: {' '.join(str(error).split())}")

    else:
        if record.status == "out_of_disk":
            raise SystemExit(DISK_FULL_BEFORE_START)


def _train(run: RunSpec, config: Mapping[str, object], folder: Path, budget: str | None) -> RunRecord:
    from headtohead.config.build import build_parts
    from headtohead.training.run import train

    parts = build_parts(config)
    job = FOUNDATION if run.is_foundation else parts.identity.job_type
    identity = replace(parts.identity, folder=folder, place=run.place, job_type=job)
    return train(replace(parts, identity=identity, budget={"kind": budget} if budget else {}))


def _check_start(init_from: str | None) -> None:
    """A foundation may have failed."""
    if init_from is None or not init_from.startswith(FROM_RUN):
        return
    record = record_of(Path(init_from.removeprefix(FROM_RUN)))
    if record is not None and record.job_type == FOUNDATION and record.status != "finished":
        raise UsageError(f"it starts from {record.name or record.id}, which {_HOW[record.status]}: {record.reason}")


def give_up(run: RunSpec, folder: Path, reason: str) -> None:
    """A run without which nothing continues is called failed, unless it came to its end after all."""
    if not is_done(folder):
        _note(run, folder, dict(run.config), reason)


def _as_run(config: Mapping[str, object], folder: Path, threads: int | None) -> dict[str, Any]:
    """Return the configuration as the run is trained here: on so many threads in all, silently, from its last
    checkpoint."""
    trainer = {**RunConfig(config).trainer, "progress_bar": False}
    trainer["threads"] = trainer["threads"] or (threads and max(1, threads // trainer["devices"]))
    has_started = record_of(folder) is not None
    return {**config, "trainer": trainer, "resume_from": str(folder) if has_started else None}


def _note(spec: RunSpec, folder: Path, config: dict[str, Any], reason: str) -> None:
    """Write a record for a run that failed before training began, which leaves none of its own."""
    record = record_of(folder)
    if record is None:
        view = RunConfig(config)
        record = RunRecord(id=folder.name, name=spec.name, group=view.group, seed=view.seed, config=config)
        record.place = spec.place
        record.job_type = FOUNDATION if spec.is_foundation else record.job_type
    elif record.status in ENDED:
        return
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    with run.claimed():
        run.write_record(replace(record, status="failed", reason=reason))


def folder_of_run(config: Mapping[str, object]) -> Path:
    """Return the run's folder, which follows from its content as in a multirun."""
    return Path(RunConfig(config).output_dir) / slug(RunConfig(config).group) / run_id(config)


def check_resuming(config: Mapping[str, object], *, is_resumable: bool, is_taken_over: bool) -> None:
    """Raise ConfigurationError for options of resuming that contradict the configuration."""
    resume_from = RunConfig(config).resume_from
    if is_resumable and resume_from:
        raise ConfigurationError("--resumable finds by itself the run to resume: take out resume_from")
    if is_taken_over and not (is_resumable or resume_from):
        raise ConfigurationError("--take-over is for resuming a run: give resume_from=RUN, or --resumable")


def train_resumable(config: Mapping[str, object], *, take_over: bool = False) -> RunRecord:
    """Started, resumed, or, where it has ended, its record as it is."""
    from headtohead.config.build import build_parts
    from headtohead.training.run import train

    folder = folder_of_run(config)
    record = record_of(folder)
    if record is not None and record.status in COUNTED:  # the failure of another may have been that of a machine
        return record
    # SLURM has ended the job that wrote it, maybe on a machine that cannot be asked
    take_over = take_over or bool(int(os.environ.get("SLURM_RESTART_COUNT") or 0))
    parts = build_parts({**config, "resume_from": None if record is None else str(folder)})
    return train(replace(parts, identity=replace(parts.identity, folder=folder, take_over=take_over)))


_PATIENCE_SECONDS = 60.0
"""The time that processes have to end after one of them has; then they are killed."""
Train = Callable[[], object]


@contextmanager
def other_processes(count: int, name: str, train: Train) -> Iterator[None]:
    """Make this process the first of `count`, which exchange numbers by torch's process groups; the others call `train`
    meanwhile. The variables are torchrun's, so that Lightning starts no further ones."""
    if count == 1:
        yield
        return
    from torch._C._distributed_c10d import TCPStore

    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    started = [_started(context, rank, train) for rank in range(1, count)]
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # forked threads would not live
    variables = {
        "TORCHELASTIC_RUN_ID": name, "TORCHELASTIC_USE_AGENT_STORE": "True", "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port),
    }  # fmt: skip
    ended = Event()
    Thread(target=_end_after, args=([process for process, _ in started], ended), daemon=True).start()
    try:
        for rank, (_, line) in enumerate(started, 1):
            line.send({**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        with _as_rank({**variables, "RANK": "0", "LOCAL_RANK": "0"}):
            yield
    except BaseException:
        for process, _ in started:
            process.terminate()
        raise
    finally:
        ended.set()
        for process, line in started:
            process.join(_PATIENCE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            line.close()


def _started(context: multiprocessing.context.BaseContext, rank: int, train: Train) -> tuple[BaseProcess, Connection]:
    theirs, ours = context.Pipe(duplex=False)
    process = context.Process(target=_take_part, args=(rank, theirs, ours, train))  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    return process, ours


def _end_after(others: Sequence[BaseProcess], ended: Event) -> None:
    """Kill this process where another died before they were connected: nothing would tell it, and it would wait."""
    wait([process.sentinel for process in others])
    if not ended.wait(_PATIENCE_SECONDS):
        os.kill(os.getpid(), signal.SIGKILL)


def _take_part(rank: int, theirs: Connection, ours: Connection, train: Train) -> None:
    """Train as one of the processes that are not the first."""
    ours.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        variables: Mapping[str, str] = theirs.recv()
    except EOFError:  # the first one is gone
        return
    Thread(target=_end_with, args=(theirs,), daemon=True, name=f"rank {rank}").start()
    with _as_rank(variables):
        train()


def _end_with(line: Connection) -> None:
    try:
        line.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _as_rank(variables: Mapping[str, str]) -> Iterator[None]:
    """Give this process its number; Lightning, which reads it when it is imported, is told again."""
    from lightning_fabric.utilities.rank_zero import rank_zero_only

    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    known = rank_zero_only.rank  # type: ignore[attr-defined]
    rank_zero_only.rank = int(variables["RANK"])  # type: ignore[attr-defined]
    try:
        yield
    finally:
        rank_zero_only.rank = known  # type: ignore[attr-defined]
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
