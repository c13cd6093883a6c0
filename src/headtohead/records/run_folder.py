"""The folder of one run, outputs/<group>/<run-id>/, and finding such folders again."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from headtohead.errors import UsageError
from headtohead.files import leases
from headtohead.files.atomic_write import remove_unfinished, replace_bytes, replace_text
from headtohead.files.disk_operations import OutOfDisk
from headtohead.files.leases import STALE_SECONDS, Holder, Lease, Leases
from headtohead.files.safe_read import DamagedFile, read_object, read_text, read_yaml
from headtohead.records.metrics_file import Curve, MetricsFile
from headtohead.records.record import Progress, RunRecord, Status, from_json, to_json
from headtohead.records.secrets import mask_yaml
from headtohead.records.signatures import sign
from headtohead.records.strict_json import RecordError

RECORD = "record.json"
CONFIG = "config.yaml"
METRICS = "metrics.csv"
TOKENIZER = "tokenizer.json"
MULTIRUN = ".multirun"
"""The folder beside the groups that holds the leases and logs of `h2h train --multirun`."""
_ID_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_SLUG_LENGTH = 40
_LEASE = "writer"
TRY = "try"
"""The name, before their number, of the files in which workers count how often they tried a run."""
_POLL_SECONDS = 0.2
_log = logging.getLogger(__name__)
PARTS = ("task", "data", "model", "trainer")
_ANOTHER_CONFIG = f"restore it from a copy; {RECORD} has the same configuration under `config`"
_ANOTHER_TOKENIZER = "restore it from a copy, or train the run again: h2h train --from-run RUN"
_ROOM, _ROOM_BYTES = ".room.part", 2**17
DIED = "the process ended without a message: it was killed, or the machine ran out of memory"


def log_file(folder: Path, run_id: str) -> Path:
    """Return where a worker writes what one run of a study or multirun printed."""
    return folder / "logs" / f"{run_id}.log"


class RunFolder:
    """All files of one run: `create` or `resume` to write, until `release`; `open` to read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics_file = MetricsFile(path / METRICS)
        self._leases = Leases(path / "leases")
        self._lease: Lease | None = None

    @classmethod
    def create(cls, outputs: Path | str, *, name: str, group: str = "default") -> RunFolder:
        """Return a new folder with an id of its own, whatever else starts at the same moment."""
        parent = Path(outputs).absolute() / slug(group)
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(
                f"output_dir={outputs} cannot hold {parent.name}/ ({error.strerror}): give a writable folder"
            ) from None
        while True:
            path = parent / new_id(name)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            folder = cls(path)
            try:
                folder.claim()
            except OutOfDisk:
                folder.abandon()
                raise
            return folder

    @classmethod
    def create_at(cls, path: Path | str) -> RunFolder:
        """Return a folder whose name, the run's id, the caller chose; one that a killed process left without a
        record too."""
        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        run = cls(folder)
        run.claim()
        if os.path.lexists(folder / RECORD):
            run.release()
            raise RecordError(f"{path} holds a run already: resume it, or choose another folder")
        return run

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """An existing run, by its folder or by a file in it."""
        absolute = Path(path).absolute()
        folder = absolute if absolute.is_dir() else absolute.parent
        if not os.path.lexists(folder / RECORD):
            raise RecordError(f"{path} holds no {RECORD}: name the folder of a run, outputs/<group>/<run-id>")
        return cls(folder)

    @classmethod
    def resume(cls, path: Path | str, *, step: int | None = None, take_over: bool = False) -> RunFolder:
        """An existing run to continue writing to, from the state it had after `step`; None leaves what was logged."""
        folder = cls.open(path)
        if (own := folder.read_record_as_written().id) != folder.id:
            raise RecordError(f"{path} holds the run {own} under another name: rename the folder to {own} to resume it")
        folder.check_paths()
        folder.claim(take_over=take_over)
        if step is not None:
            folder.metrics_file.drop_after(step)
        return folder

    def claim(self, *, take_over: bool = False) -> None:
        """Become the only writer, or raise RecordError where another process is it.

        One of another machine, which cannot be looked up, is given STALE_SECONDS for a sign of life. `take_over` does
        not wait: whoever writes now ends at its next write.
        """
        first: Holder | None = None
        while (lease := self._leases.take(_LEASE, guarded=self.path, take_over=take_over)) is None:
            holder = self._leases.holder(_LEASE)
            if holder is None and not take_over:  # given back since
                continue
            if holder is None or holder.is_alive or (first is not None and holder.beat != first.beat):
                raise RecordError(
                    f"{self.path} is being written by {holder or 'another process'}: wait for it or stop it, or give "
                    "--take-over, upon which that process ends"
                )
            if first is None:
                first = holder
                _log.warning(
                    "%s was last written by %s: waiting up to %.0f s for another one (--take-over resumes at once)",
                    self.path, holder, STALE_SECONDS,
                )  # fmt: skip
            leases.system.sleep(_POLL_SECONDS)
        self._lease = lease

    def release(self) -> None:
        """Let others write; whoever does not hold the lease has nothing to give back."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the run as its only writer within the context."""
        self.claim()
        try:
            yield
        finally:
            self.release()

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def wandb(self) -> Path:
        return self.path / "wandb"

    @property
    def attention(self) -> Path:
        return self.path / "attention"

    @property
    def output(self) -> Path | None:
        """Return the file with what the run printed, where a worker of its study or multirun made it."""
        above = self.path.parent.parent
        return next((file for one in (above, above / MULTIRUN) if (file := log_file(one, self.id)).is_file()), None)

    def is_live(self) -> bool:
        """Return whether a process writes the run, whatever its record says; on another machine, by its last sign of
        life."""
        holder = self._leases.holder(_LEASE)
        if holder is None or holder.is_alive is not None:
            return holder is not None
        return (
            abs(leases.system.wall_seconds() - holder.beat / 1e9) < STALE_SECONDS
        )  # a clock that was set back tells nothing

    def written_here(self) -> bool:
        """Return whether a process of this machine certainly still writes the run."""
        holder = self._leases.holder(_LEASE)
        return holder is not None and bool(holder.is_alive)

    def mark_abandoned(self) -> None:
        """Said by one who knows that the process that wrote it is gone, though another machine's cannot be seen."""
        if (lease := self._leases.take(_LEASE, take_over=True)) is not None:
            lease.release()

    def write_record(self, record: RunRecord) -> None:
        is_own = (
            record.id == self.id or record.path == self.path
        )  # a copied or renamed run has the id of its first name
        assert is_own, f"record {record.id} does not belong to {self.path}"
        replace_text(self.path / RECORD, to_json(record))
        record.path = self.path

    def read_record_as_written(self) -> RunRecord:
        """The record without a look at whether its process lives."""
        file = self.path / RECORD
        record = from_json(read_text(file), where=str(file))
        record.path = self.path
        return record

    def read_record(self) -> RunRecord:
        """Return the record; a `running` whose process is gone reads as interrupted, as far as its metrics came."""
        record = self.read_record_as_written()
        if record.status != "running":
            return record
        status, reason = self.current_status(record)
        progress = self.metrics_file.last_progress() or record.progress
        return replace(record, status=status, reason=reason, progress=progress, path=self.path)

    def current_status(self, record: RunRecord) -> tuple[Status, str | None]:
        """The status of this run's record as written, and its reason, after a look at whether its process lives."""
        if record.status == "running" and not self.is_live():
            return "interrupted", DIED
        return record.status, record.reason

    def reserve_space(self) -> None:
        """Hold as much of the disk as the record takes, so that a run which finds it full can still say so."""
        replace_bytes(self.path / _ROOM, os.urandom(_ROOM_BYTES))

    def release_space(self) -> None:
        """Give that room up, and that of files which were never finished."""
        (self.path / _ROOM).unlink(missing_ok=True)

    def check_paths(self) -> None:
        """Raise DamagedFile where a folder bears the name of a file that is about to be written."""
        for path in (self.path / CONFIG, self.path / TOKENIZER, self.metrics_file.path):
            if path.is_dir():
                raise DamagedFile(path, "is a folder, not a file", "remove it")
        if os.path.lexists(self._leases.folder) and not self._leases.folder.is_dir():
            raise DamagedFile(self._leases.folder, "is a file, not a folder", "remove it")

    def abandon(self) -> None:
        """Remove a folder in which no run has begun, and no file that is not ours."""
        if os.path.lexists(self.path / RECORD):
            return
        remove_unfinished(self.path)
        leases_and_tries = (self._leases.folder.glob(f"{name}.*") for name in (_LEASE, TRY))
        for file in (self.path / CONFIG, *chain.from_iterable(leases_and_tries)):
            file.unlink(missing_ok=True)
        for folder in (self._leases.folder, self.path):
            with suppress(OSError):
                folder.rmdir()

    def write_config(self, text: str) -> None:
        """Write config.yaml, resolved, with secrets masked."""
        replace_text(self.path / CONFIG, mask_yaml(text))

    def read_config(self) -> dict[str, Any]:
        """Return what config.yaml holds; raises DamagedFile where that is not a configuration of a run."""
        file = self.path / CONFIG
        config = read_yaml(file, way_out=_ANOTHER_CONFIG)
        if not isinstance(config, dict):
            raise DamagedFile(file, "holds no configuration of a run", _ANOTHER_CONFIG)
        for part in PARTS:
            if not isinstance(config.get(part, {}), dict):
                raise DamagedFile(file, f"holds no configuration of a run: its {part} has no fields", _ANOTHER_CONFIG)
        return config

    def sign(self, *, record: bool) -> None:
        """Know config.yaml, and the record where this user made that too, as their own whenever they are opened."""
        sign(self.path, [self.read_config(), *([self.read_record_as_written().config] if record else [])])

    def write_tokenizer(self, facts: Mapping[str, object]) -> None:
        """Save the run's tokenizer for runs that start from it."""
        replace_text(self.path / TOKENIZER, json.dumps(facts))

    def read_tokenizer(self) -> dict[str, Any] | None:
        """Return None where the run read no text."""
        file = self.path / TOKENIZER
        if not file.is_file():
            return None
        facts = read_object(file, way_out=_ANOTHER_TOKENIZER)
        if missing := [name for name in ("kind", "pieces", "merges") if name not in facts]:
            raise DamagedFile(file, f"holds no tokenizer of a run: it has no {missing[0]}", _ANOTHER_TOKENIZER)
        return facts

    def log(self, progress: Progress, values: Mapping[str, float]) -> None:
        """Append numbers to metrics.csv."""
        self.metrics_file.append(progress, values)

    def check_lease(self) -> None:
        """Raise LeaseLostError where another process has taken over, where nothing is written for long."""
        if self._lease is not None:
            self._lease.check()

    def metrics(self, only: Collection[str] | None = None) -> dict[str, Curve]:
        """Return every logged metric by name, or those named."""
        return self.metrics_file.curves(only)


def slug(text: str) -> str:
    """Lower-case letters, digits and dashes: fit for folders, shells and W&B."""
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-._") or "run"


def new_id(name: str) -> str:
    """The run's name, the day, and six random letters."""
    # The system's own randomness: the seeded generators belong to training, and two runs may share their seed.
    tail = "".join(secrets.choice(_ID_ALPHABET) for _ in range(6))
    return f"{slug(name)[:_SLUG_LENGTH].rstrip('-._')}-{time.strftime('%Y%m%d')}-{tail}"


def find_runs(root: Path | str) -> list[RunFolder]:
    """Every run folder at or below `root`, by path."""
    runs = []
    for folder, subfolders, files in os.walk(root):
        if RECORD in files:
            runs.append(RunFolder(Path(folder).absolute()))
            subfolders.clear()
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
    return sorted(runs, key=lambda run: str(run.path))


def scan(root: Path | str, *, on_error: Callable[[Exception], None] | None = None) -> list[RunRecord]:
    """Return every record at or below `root`; an unreadable one is told to `on_error`, or raised."""
    records = []
    for folder in find_runs(root):
        try:
            records.append(folder.read_record())
        except (UsageError, OSError) as error:
            if on_error is None:
                raise
            on_error(error)
    return records


def load_run(path: Path | str) -> RunRecord:
    """The record of one run; RunFolder.open(record.path) has its metrics and files."""
    return RunFolder.open(path).read_record()
