"""Add numbers and media that a run's folder has and W&B's file lacks to the file that `h2h sync` uploads."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headtohead.files.atomic_write import replace_by_name, replace_bytes
from headtohead.records.metrics_file import MetricsRow
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RECORD, RunFolder
from headtohead.records.secrets import mask_secrets, without_home
from headtohead.wandb_client.artifacts import has_pending_artifacts, link_record
from headtohead.wandb_client.logged_rows import (
    AXIS,
    Extremes,
    MediaFile,
    Medium,
    in_rows,
    media_of,
    prepared,
    send,
    usual_number,
)
from headtohead.wandb_client.pending_uploads import SUPERSEDED, Pending, marker
from headtohead.wandb_client.runs_as_records import summary_of
from headtohead.wandb_client.tracker import Tracker
from headtohead.wandb_client.transaction_log import UploadTarget, address_of, is_complete, messages_of, with_records

_APART = "missing"
_OF_THE_CLIENT = ("_timestamp", "_runtime")
"""The client's columns: those of a row that is added later would say when that was."""
_FILES, _MEDIA = "files", "media/"
_COUNTED: Mapping[Medium, str] = {"numbers": "row{} of numbers", "tables": "table{}", "pictures": "picture{}"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Missing:
    """Missing data are in the run's folder, but in no file that was or will be uploaded to W&B."""

    rows: Sequence[MetricsRow] = ()
    media: Sequence[MediaFile] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.media)


def uploads_needed(run: RunFolder, files: Sequence[Path]) -> list[Pending]:
    """Return the files that the server does not hold whole, or whose run's folder has more than they."""
    return [
        Pending(run, file)
        for file in files
        if not marker(file).exists() or has_pending_artifacts(run) or missing_in(run, file)
    ]


def lost_sentence(lost: Mapping[Medium, int], upload: str) -> str | None:
    """Say what W&B's client did not take of a run, and which command uploads it; None where nothing was lost."""
    counts = {medium: count for medium, count in lost.items() if count}
    parts = [f"{counts[medium]} {_COUNTED[medium].format('s' * (counts[medium] > 1))}" for medium in counts]
    them = "it" if list(counts.values()) == [1] else "them"
    return f"W&B lacks {' and '.join(parts)}; {upload} uploads {them}" if parts else None


def missing_in(run: RunFolder, file: Path) -> Missing:
    """Compare what W&B's client wrote with the run's folder; nothing is missing of a file that names no run."""
    if address_of(file) is None:
        return Missing()
    online = run.wandb.glob(f"{SUPERSEDED}/run-*/run-*.wandb")  # what these starts sent was not sent again
    there = {value for log_file in (file, *online) for value in _values_in(log_file)}
    names = {name for _, name in there}
    rows = []
    for row in run.metrics_file.rows():
        values = {name: value for name, value in row.values.items() if (row.progress.step, name) not in there}
        if values:
            rows.append(MetricsRow(row.progress, values))
    media = [
        one
        for one in media_of(run, run.read_record().progress.step)
        if (one.name not in names if one.is_of_test else (one.step, one.name) not in there)
    ]
    return Missing(rows, media)


def has_no_record(file: Path) -> bool:
    """Return whether the run was killed, so that its page has neither its record nor its status."""
    return address_of(file) is not None and not any(
        one.path == RECORD for message in messages_of(file) for one in message.files.files
    )


def complete(run: RunFolder, file: Path, missing: Missing) -> None:
    """Add what is missing to W&B's file, behind all other rows, and the summary as the run's folder has it."""
    address = address_of(file)
    assert address is not None, "nothing is missing of a file that names no run"
    rows = list(_rows(run, missing))
    summary = _summary(run)
    last_steps = {name: step for step, name in sorted(_values_in(file))}
    shown = {name for step, values, _ in rows for name in values if step.step >= last_steps.get(name, -1)}
    first_free = _last_number(file) + 1

    def write(opened: Any) -> None:
        number = first_free
        for progress, values, medium in rows:
            for index, row in sorted(in_rows(values, medium).items()):
                number = max(number, usual_number(progress.step, index))
                send(opened, number, progress, prepared(opened, number, row, medium))
                number += 1
        opened.summary.update(without_home(mask_secrets(summary)))
        link_record(opened, run.path)

    apart = file.with_name(_APART)
    apart.mkdir()
    try:
        made = write_separately(address, apart, write)
        added = [record for message in messages_of(made) if (record := _taken(message, {*shown, *summary, "record"}))]
        _copy_files(made, file)
        replace_bytes(file, with_records(file, added))
    finally:
        shutil.rmtree(apart, ignore_errors=True)
    marker(file).unlink(missing_ok=True)


def _rows(run: RunFolder, missing: Missing) -> Iterator[tuple[Progress, Mapping[str, object], Medium]]:
    """Yield what is sent, in order of steps; a file that cannot be read costs itself alone."""
    known = {row.progress.step: row.progress for row in run.metrics_file.rows()}
    rows: list[tuple[Progress, Mapping[str, object], Medium]] = [
        (row.progress, row.values, "numbers") for row in missing.rows
    ]
    for one in missing.media:
        try:
            rows.append((known.get(one.step, Progress(one.step)), {one.name: one.read()}, one.medium))
        except (OSError, ValueError) as error:
            _log.warning("%s cannot be read and is not uploaded: %s", one.path, error)
    yield from sorted(rows, key=lambda row: row[0].step)


def _summary(run: RunFolder) -> dict[str, Any]:
    record, extremes = run.read_record(), Extremes()
    for row in run.metrics_file.rows():
        extremes.take(row.values)
    ended = {} if record.status == "running" else {"status": record.status, "reason": record.reason or ""}
    return {**extremes.as_summary(), **summary_of(record), **ended}


def _taken(message: Any, shown: Collection[str]) -> bytes | None:
    """Return the record with what it says of the run; of a summary the names that are `shown`."""
    if message.HasField("history"):
        _keep(message.history.item, lambda name: name not in _OF_THE_CLIENT)
    elif message.HasField("summary"):
        _keep(message.summary.update, lambda name: name in shown)
        if not message.summary.update:
            return None
    elif not _is_of_the_run(message):
        return None
    return bytes(message.SerializeToString())


def _keep(items: Any, should_keep: Callable[[str], bool]) -> None:
    """Drop the other items of a row or of a summary."""
    for number in reversed(range(len(items))):
        if not should_keep(_name(items[number])):
            del items[number]


def _is_of_the_run(message: Any) -> bool:
    """Return whether the name is that of one of our files, not of one that W&B's client writes itself."""
    return message.HasField("files") and all(one.path.startswith((_MEDIA, RECORD)) for one in message.files.files)


def _copy_files(made: Path, file: Path) -> None:
    """Copy the files that the records name to where W&B's client looks for those of the run."""
    for message in filter(_is_of_the_run, messages_of(made)):
        for one in message.files.files:
            target = file.parent / _FILES / one.path
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_by_name(target, partial(shutil.copyfile, made.parent / _FILES / one.path))


def _values_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yield every logged value as its step and its name."""
    for message in messages_of(file):
        if message.HasField("history"):
            items = {_name(item): item.value_json for item in message.history.item}
            step = int(float(items.get(AXIS, "-1")))
            yield from ((step, name) for name in items)


def _last_number(file: Path) -> int:
    return max((message.history.step.num for message in messages_of(file) if message.HasField("history")), default=-1)


def _name(item: Any) -> str:
    """Return the name of a picture or table, a mapping of which W&B's client writes every field as a separate item."""
    return str(item.key or item.nested_key[0])


def copy_lost_rows(record: RunRecord, tracker: Tracker, folder: RunFolder) -> bool:
    """Take over into the record how much W&B lacks of the run, and the command that uploads it; whether it lacks
    anything. W&B's client says nothing of numbers for which its file has no room."""
    lost = {medium: count for medium, count in tracker.lost.items() if count}
    upload = f"h2h sync {os.path.relpath(folder.path)}"
    if record.wandb.mode == "offline" and "numbers" not in lost and (steps := _steps_lost(record, folder)):
        lost["numbers"] = steps
        _log.warning("W&B's file is missing the numbers of %d steps; `%s` uploads them", steps, upload)
    record.wandb.lost, record.wandb.upload = lost, upload if lost else None
    return bool(lost)


def _steps_lost(record: RunRecord, folder: RunFolder) -> int:
    """Those of metrics.csv that are in no row of W&B's file, which is read up to where it is torn."""
    directory = folder.path / (record.wandb.directory or "")
    there: set[int] = set()
    for file in directory.glob("run-*.wandb"):
        for message in messages_of(file):
            if message.HasField("history"):
                items = {item.key or ".".join(item.nested_key): item.value_json for item in message.history.item}
                there.add(int(float(items.get(AXIS, "-1"))))
    return len({row.progress.step for row in folder.metrics_file.rows()} - there)


WRITING_TIMEOUT = 10.0
"""Seconds for W&B's service to write what its client has handed over."""


def write_separately(
    address: UploadTarget,
    folder: Path,
    write: Callable[[Any], None],
    left: Callable[[], float] = lambda: WRITING_TIMEOUT,
) -> Path:
    """Return the file that W&B's client wrote while `write` had the open run."""
    import wandb

    quiet = wandb.Settings(
        console="off", silent=True, disable_git=True, host="", username="", program="h2h",
        x_disable_machine_info=True, x_disable_stats=True, x_save_requirements=False,
    )  # fmt: skip
    with wandb.init(mode="offline", id=address.id, project=address.project, dir=str(folder), settings=quiet) as run:
        write(run)
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    wait_for_end_of(file, left())
    return file


def wait_for_end_of(file: Path, timeout: float = WRITING_TIMEOUT) -> None:
    """W&B's service writes a little longer than its client waits; of a run that was killed nothing more comes."""
    while not is_complete(file) and time.time() - file.stat().st_mtime < min(timeout, WRITING_TIMEOUT):
        time.sleep(0.02)
