"""The account of a run while it runs: its folder, its record, its line to W&B; only the main process writes one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch
import yaml

from headtohead.data.batches.row_order import OrderedSplit
from headtohead.data.data_source import DataError
from headtohead.data.splits.leaks import LEAKS
from headtohead.data.splits.left_out_rows import LEFT_OUT
from headtohead.errors import UsageError
from headtohead.files.atomic_write import remove_unfinished
from headtohead.files.disk_operations import OutOfDisk
from headtohead.metrics import Metric
from headtohead.records.early_stopping_marker import why_ended_early
from headtohead.records.environment import collect_environment
from headtohead.records.open_fields import check_open_fields
from headtohead.records.record import CheckpointSelection, RunRecord, Status
from headtohead.records.run_folder import RunFolder
from headtohead.records.strict_json import RecordError, encode
from headtohead.tasks.task import Task
from headtohead.training.checkpoints import last_step
from headtohead.training.energy_counters import Energy
from headtohead.training.loop.run_state import JOULES, RunState
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.measurement import Measurement
from headtohead.training.parallel.devices import describe
from headtohead.training.parallel.process_group import is_main_process
from headtohead.training.run_components import RunComponents, RunInfo
from headtohead.training.trainer import RunLogger
from headtohead.wandb_client.connection import setting
from headtohead.wandb_client.missing_rows import copy_lost_rows
from headtohead.wandb_client.runs_as_records import summary_of
from headtohead.wandb_client.tracker import Tracker
from headtohead.wandb_client.wandb_tracker import start

_JOULES, _REPEATED = "joules", "repeated_joules"
ELSEWHERE = "another-process"
"""The id of the record that a process holds which does not write it."""


class RunRecorder:
    """Opened before anything is built, closed whatever happens."""

    def __init__(self, parts: RunComponents, record: RunRecord, folder: RunFolder | None, *, resumed: bool) -> None:
        self.record, self._folder = record, folder
        self._tracker: Tracker | None = None
        if folder is not None:
            remove_unfinished(folder.path)
            folder.reserve_space()
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
    def open(cls, parts: RunComponents, device: torch.device, precision: str) -> RunRecorder:
        """A new run's, or, with resume_from, that of the run to continue."""
        identity = parts.identity
        if not is_main_process():
            return cls(parts, _new_record(ELSEWHERE, parts), None, resumed=False)
        new = _new_record(ELSEWHERE, parts) if identity.resume_from is None else None  # refused before it has a folder
        folder = _claimed_folder(identity)
        try:
            if new is not None:
                record = replace(new, id=folder.id)
            else:
                record = _resumable_folder(folder, identity, parts.settings.max_steps)
                record.config = {**parts.config, "resume_from": record.config.get("resume_from")}
                record.content_hash = identity.content_hash or record.content_hash
            record.environment = collect_environment(describe(device, count=_num_devices(parts)), parts.config)
            record.comparability = _measurement(parts).comparability(precision)
            return cls(parts, record, folder, resumed=identity.resume_from is not None)
        except BaseException as error:
            folder.release()
            if isinstance(error, OutOfDisk):
                folder.abandon()
            raise

    @property
    def folder(self) -> Path:
        """Return the folder for the run's files; the other processes write none."""
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

    def take_throughput(self, figures: Mapping[str, float | None]) -> None:
        """Take over the figures of this start; a former start's stay where this one has measured no step, as one that
        was resumed to be tested."""
        former, peak = self.record.throughput, "peak_memory_bytes"
        if figures.keys() <= {peak}:
            largest = max(former.get(peak) or 0.0, figures.get(peak) or 0.0)
            self.record.throughput = {**former, peak: largest}
        else:  # what later starts drew for steps that were taken again is counted over all starts
            self.record.throughput = {**figures, **{name: former[name] for name in former if name == _REPEATED}}

    def take_energy(self, energy: Energy) -> None:
        """Take over what the run drew: an amount where all of it was measured, otherwise the reason alone."""
        if not energy.source:
            return
        self.record.environment.device["energy"] = energy.source
        self.record.throughput.pop(_JOULES, None)
        if energy.joules is not None:
            self.record.throughput[_JOULES] = energy.joules

    def close(self, status: Status, reason: str | None) -> None:
        """Write down how the run ended, and tell W&B."""
        self.end(status, reason)
        self.detach()

    def end(self, status: Status, reason: str | None) -> None:
        """Write down how the run ended, with the room that was kept for it."""
        record = self.record
        if status == "interrupted" and self._folder is not None:
            reason = why_ended_early(self._folder.path) or reason
        record.status, record.reason = status, reason
        record.timing.finished = _now()
        if self._folder is not None:
            self._folder.release_space()
        self._write()

    def detach(self) -> None:
        """Tell W&B what the record says."""
        if self._folder is not None and self._tracker is not None:
            self._tracker.summary(summary_of(self.record))
            self._tracker.finish(self.record.status, self.record.reason)
            if copy_lost_rows(self.record, self._tracker, self._folder):
                with suppress(OutOfDisk):  # the command line has said it
                    self._write()
        self.release()

    def release(self) -> None:
        """Let others write the run's folder."""
        if self._folder is not None:
            self._folder.release()

    def _write(self) -> None:
        if self._folder is not None:
            self._folder.write_record(self.record)


def _new_record(run_id: str, parts: RunComponents) -> RunRecord:
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
        data=_data_facts(parts),
        costs=dict(parts.costs),
        budget=dict(parts.budget),
        place=identity.place,
        baselines=task.baseline(parts.data.spec()),
        scales=_scales(task),
        selection=CheckpointSelection(metric=task.monitor, direction=task.direction),
    )


def _data_facts(parts: RunComponents) -> dict[str, object]:
    """Return what the data tells of itself; raises DataError for what no reader of the record would take."""
    data = parts.data
    facts = {
        **data.provenance(),
        **data.reading(),
        **_rows(parts),
        **_classes(parts),
        **_measurement(parts).validation_texts(),
        **({LEAKS: dict(leaks)} if (leaks := data.leaks()) else {}),
        **({LEFT_OUT: dict(left_out)} if (left_out := data.left_out()) else {}),
    }
    try:
        check_open_fields({"data": encode(facts, "record.data")}, "record")
    except RecordError as error:
        raise DataError(
            f"what {type(data).__qualname__} tells of its rows could not be read back from the run's record ({error}): "
            "correct what its provenance(), reading(), leaks(), left_out() or spec().class_names return"
        ) from None
    return facts


def _scales(task: Task) -> dict[str, Metric]:
    """Return what the task measures, with the chance of the data at hand."""
    chance = task.chance()
    return {metric.name: replace(metric, chance=chance.get(metric.name, metric.chance)) for metric in task.metrics}


def _rows(parts: RunComponents) -> dict[str, int]:
    """Nobody knows how many a stream has."""
    train, count = parts.data.split("train"), parts.settings.train_rows
    return {} if isinstance(train, OrderedSplit) else {"train_rows": len(train) if count is None else count}


def _classes(parts: RunComponents) -> dict[str, list[str]]:
    """Return the class names by their numbers, or the words that stand for labels, so that other data can be given the
    same ones."""
    spec = parts.data.spec()
    names = spec.class_names or spec.label_words
    return {"classes": list(names)} if names else {}


def _claimed_folder(identity: RunInfo) -> RunFolder:
    if identity.resume_from is not None:
        return RunFolder.resume(identity.resume_from, take_over=identity.take_over)
    if identity.folder is not None:
        return RunFolder.create_at(identity.folder)
    return RunFolder.create(identity.output_dir, name=identity.name, group=identity.group)


def folder_of(run: Path) -> Path:
    """A run may be named by its folder or by a file in it."""
    return RunFolder.open(run).path


def _resumable_folder(folder: RunFolder, identity: RunInfo, max_steps: int) -> RunRecord:
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
            f"resume_from={run} is finished: start from its weights with "
            "init_from, or, where checkpoints/last.ckpt was kept, raise trainer.max_steps"
        )
    record.throughput = _with_repeated(record.throughput, folder, step)
    folder.metrics_file.drop_after(step)
    record.status, record.reason = "running", None
    record.timing.finished = None
    record.timing.starts += 1
    return record


def _with_repeated(throughput: Mapping[str, float | None], folder: RunFolder, step: int) -> dict[str, float | None]:
    """Return the former start's figures with what it drew after the step from which the run goes on, as far as it was
    logged: those steps are taken again, and what they cost is counted apart."""
    drawn = folder.metrics_file.curves({JOULES}, mend=True).get(JOULES)
    if drawn is None:
        return dict(throughput)
    counted = [joules for at, joules in zip(drawn.step, drawn.value, strict=True) if at <= step]
    lost = drawn.last - (counted[-1] if counted else 0.0)
    return {**throughput, _REPEATED: (throughput.get(_REPEATED) or 0.0) + lost} if lost else dict(throughput)


def _measurement(parts: RunComponents) -> Measurement:
    return Measurement(parts.data, parts.task, parts.settings.validation_batches)


def _num_devices(parts: RunComponents) -> int:
    return parts.settings.devices * parts.settings.num_nodes


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
