"""The account of a run while it runs: its folder, its record, its line to W&B; only the main process writes one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch
import yaml

from headtohead.data.leaks import LEAKS
from headtohead.data.order import OrderedSplit
from headtohead.errors import UsageError
from headtohead.files.disk import OutOfDisk
from headtohead.files.leftovers import sweep
from headtohead.metrics import Metric
from headtohead.tasks.contracts import Task
from headtohead.tracking.environment import collect_environment
from headtohead.tracking.record import VALIDATION_TEXTS, Comparability, RunRecord, Selection, Status
from headtohead.tracking.stopping import why_ended_early
from headtohead.tracking.store import RunFolder
from headtohead.tracking.tracker import Tracker
from headtohead.tracking.wandb import start
from headtohead.tracking.wandb_runs import summary_of
from headtohead.tracking.wandb_settings import setting
from headtohead.training.checkpoints import last_step
from headtohead.training.devices import describe
from headtohead.training.distributed import is_main_process
from headtohead.training.logger import RunLogger
from headtohead.training.parts import Identity, Parts
from headtohead.training.seeds import seeds_of
from headtohead.training.state import RunState

ELSEWHERE = "another-process"
"""The id of the record that a process holds which does not write it."""


class Session:
    """Opened before anything is built, closed whatever happens."""

    def __init__(self, parts: Parts, record: RunRecord, folder: RunFolder | None, *, resumed: bool) -> None:
        self.record, self._folder = record, folder
        self._tracker: Tracker | None = None
        if folder is not None:
            sweep(folder.path)
            folder.keep_room()
            record.timing.started = record.timing.started or _now()
            folder.write_config(yaml.safe_dump(dict(parts.config), sort_keys=False, allow_unicode=True))
            folder.write_record(record)
            folder.sign(record=not resumed)  # the record of a continued run may be another's
            if (tokenizer := parts.data.tokenizer_facts()) is not None:
                folder.write_tokenizer(tokenizer)
            try:
                self._tracker = start(parts.tracking, record, folder, resumed=resumed)
            except ValueError as refusal:
                self.close("failed", str(refusal))
                raise
            folder.write_record(record)
        self.logger = RunLogger(folder, self._tracker)

    @classmethod
    def open(cls, parts: Parts, device: torch.device, precision: str) -> Session:
        """A new run's, or, with resume_from, that of the run to continue."""
        identity = parts.identity
        if not is_main_process():
            return cls(parts, _new_record(ELSEWHERE, parts), None, resumed=False)
        folder = _claimed_folder(identity)
        try:
            if identity.resume_from is None:
                record = _new_record(folder.id, parts)
            else:
                record = _to_go_on(folder, identity, parts.settings.max_steps)
                record.content_hash = record.content_hash or identity.content_hash
            record.environment = collect_environment(describe(device, count=_num_devices(parts)), parts.config)
            record.comparability = _comparability(parts, precision)
            return cls(parts, record, folder, resumed=identity.resume_from is not None)
        except BaseException as error:
            folder.release()
            if isinstance(error, OutOfDisk):
                folder.abandon()
            raise

    @property
    def folder(self) -> Path:
        """Where the run's files go; the other processes write none."""
        return Path() if self._folder is None else self._folder.path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def note(self, state: RunState, seconds: float) -> None:
        """Take over how far the run has come, and write it down."""
        self.take(state, seconds)
        self._write()

    def take(self, state: RunState, seconds: float) -> None:
        """Take over how far the run has come."""
        record = self.record
        record.progress = state.progress(seconds)
        record.selection.step, record.selection.value = state.best_step, state.best_value
        record.metrics["validation"] = dict(state.best_metrics)

    def close(self, status: Status, reason: str | None) -> None:
        """Write down how the run ended, and tell W&B."""
        self.end(status, reason)
        self.leave()

    def end(self, status: Status, reason: str | None) -> None:
        """Write down how the run ended, with the room that was kept for it."""
        record = self.record
        if status == "interrupted" and self._folder is not None:
            reason = why_ended_early(self._folder.path) or reason
        record.status, record.reason = status, reason
        record.timing.finished = _now()
        if self._folder is not None:
            self._folder.give_room()
        self._write()

    def leave(self) -> None:
        """Tell W&B what the record says."""
        if self._folder is not None and self._tracker is not None:
            self._tracker.summary(summary_of(self.record))
            self._tracker.finish(self.record.status, self.record.reason)
        self.release()

    def release(self) -> None:
        """Let others write the run's folder."""
        if self._folder is not None:
            self._folder.release()

    def _write(self) -> None:
        if self._folder is not None:
            self._folder.write_record(self.record)


def _new_record(run_id: str, parts: Parts) -> RunRecord:
    identity, task = parts.identity, parts.task
    return RunRecord(
        id=run_id,
        name=identity.name,
        group=identity.group,
        job_type=identity.job_type,
        tags=list(identity.tags),
        notes=identity.notes or setting("run_notes"),
        seed=identity.seed,
        seeds=seeds_of(identity.seed),
        config=dict(parts.config),
        content_hash=identity.content_hash,
        data={
            **parts.data.provenance(),
            **parts.data.reading(),
            **_rows(parts),
            **_classes(parts),
            **_validation_texts(parts),
            **({LEAKS: dict(found)} if (found := parts.data.leaks()) else {}),
        },
        costs=dict(parts.costs),
        budget=dict(parts.budget),
        place=identity.place,
        baselines=task.baseline(parts.data.spec()),
        scales=_scales(task),
        selection=Selection(metric=task.monitor, direction=task.direction),
    )


def _scales(task: Task) -> dict[str, Metric]:
    """Return what the task measures, with the chance of the data at hand."""
    chance = task.chance()
    return {metric.name: replace(metric, chance=chance.get(metric.name, metric.chance)) for metric in task.metrics}


def _rows(parts: Parts) -> dict[str, int]:
    """Nobody knows how many a stream has."""
    train, count = parts.data.split("train"), parts.settings.train_rows
    return {} if isinstance(train, OrderedSplit) else {"train_rows": len(train) if count is None else count}


def _classes(parts: Parts) -> dict[str, list[str]]:
    """By their numbers, so that other data can be told to have the same."""
    names = parts.data.spec().class_names
    return {"classes": list(names)} if names else {}


def _claimed_folder(identity: Identity) -> RunFolder:
    if identity.resume_from is not None:
        return RunFolder.resume(identity.resume_from, take_over=identity.take_over)
    if identity.folder is not None:
        return RunFolder.create_at(identity.folder)
    return RunFolder.create(identity.output_dir, name=identity.name, group=identity.group)


def folder_of(run: Path) -> Path:
    """A run may be named by its folder or by a file in it."""
    return RunFolder.open(run).path


def _to_go_on(folder: RunFolder, identity: Identity, max_steps: int) -> RunRecord:
    """Read only once the folder is ours: whoever wrote it before may have done so until then."""
    run, record = identity.resume_from, folder.read_record_as_written()
    if record.seed != identity.seed:
        raise UsageError(
            f"resume_from={run} has seed={record.seed} and this run seed={identity.seed}: a run is continued under its "
            "own seed"
        )
    step = last_step(folder.path)
    if record.status == "finished" and not 0 < step < max_steps:
        raise UsageError(
            f"resume_from={run} is finished, and nothing of it is left to train: start from its weights with "
            "init_from, or, where checkpoints/last.ckpt was kept, raise trainer.max_steps"
        )
    folder.metrics_file.drop_after(step)
    record.status, record.reason = "running", None
    record.timing.finished = None
    record.timing.starts += 1
    return record


def _comparability(parts: Parts, precision: str) -> Comparability:
    spec, task, sampled = parts.data.spec(), parts.task.measured_how(), _sampled(parts)
    return Comparability(
        data=spec.data_hash or None,
        tokenizer=spec.tokenizer_hash or None,
        evaluation=_hash([spec.data_hash, spec.tokenizer_hash, task, sampled]),
        texts=_hash([spec.texts_hash, task, *(sampled or ())]) if spec.texts_hash else None,
        loss_normalisation=f"{task}: mean over everything scored in a batch",
        precision=precision,
    )


def _sampled(parts: Parts) -> list[object] | None:
    """How many rows a validation reads; None where it reads all."""
    if (batches := parts.settings.validation_batches) is None:
        return None
    count = batches * parts.data.batch_size
    return ["sampled rows", count] if count < len(parts.data.split("validation")) else None


def _validation_texts(parts: Parts) -> dict[str, str]:
    """Only where a validation reads some rows, and which texts are in them follows from the tokenizer."""
    spec, sampled = parts.data.spec(), _sampled(parts)
    if not spec.texts_hash or sampled is None or not spec.rows_follow_tokens:
        return {}
    return {VALIDATION_TEXTS: _hash([spec.texts_hash, spec.data_hash, spec.tokenizer_hash, *sampled])}


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _num_devices(parts: Parts) -> int:
    return parts.settings.devices * parts.settings.num_nodes


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
