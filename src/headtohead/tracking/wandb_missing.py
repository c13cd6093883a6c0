"""What a run's metrics.csv has and W&B's file of it lacks: written into that file, so that `h2h sync` uploads it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.files.writing import replace_bytes
from headtohead.tracking.artifacts import wait
from headtohead.tracking.metrics import Row
from headtohead.tracking.rows import Medium, in_rows, usual_number
from headtohead.tracking.secrets import mask_secrets, without_home
from headtohead.tracking.store import RunFolder
from headtohead.tracking.syncing import SUPERSEDED, Pending, marker
from headtohead.tracking.wandb_files import address_of, messages_of, with_records
from headtohead.tracking.wandb_rows import AXIS, axes_of
from headtohead.tracking.wandb_runs import summary_of


def pending(run: RunFolder, files: Sequence[Path]) -> list[Pending]:
    """Return the files that the server does not hold whole, or whose run's record has more than they."""
    return [Pending(run, file) for file in files if not marker(file).exists() or wait(run) or missing_rows(run, file)]


def lost_sentences(lost: Mapping[Medium, int], folder: Path, upload: str) -> Iterator[str]:
    """Say what W&B's client did not take of a run, and how it gets there."""
    if rows := lost.get("numbers"):
        yield f"W&B lacks {rows} rows of numbers; {upload} uploads them"
    if media := lost.get("tables", 0) + lost.get("pictures", 0):
        yield f"W&B lacks {media} rows of tables and pictures, which stay in {os.path.relpath(folder)} alone"


def missing_rows(run: RunFolder, file: Path) -> list[Row]:
    """Return what no file of the run has that was sent to W&B or will be; nothing of a file that names no run."""
    if address_of(file) is None:
        return []
    online = run.wandb.glob(f"{SUPERSEDED}/run-*/run-*.wandb")  # what these starts sent was not told again
    there = {value for found in (file, *online) for value in _values_in(found)}
    rows = []
    for row in run.metrics_file.rows():
        values = {name: value for name, value in row.values.items() if (row.progress.step, name) not in there}
        if values:
            rows.append(Row(row.progress, values))
    return rows


def complete(run: RunFolder, file: Path, rows: Iterable[Row]) -> None:
    """Add the rows to W&B's file, behind all others, and the summary as the record has it."""
    last = max((message.history.step.num for message in messages_of(file) if message.HasField("history")), default=-1)
    added: list[bytes] = []
    for row in rows:
        for place, values in sorted(in_rows(row.values).items()):
            last = max(usual_number(row.progress.step, place), last + 1)
            added.append(_history(last, {**values, **axes_of(row.progress), "_step": last}))
    record = run.read_record()
    ended = {} if record.status == "running" else {"status": record.status, "reason": record.reason or ""}
    summary = {**summary_of(record), **ended}
    added.append(_summary(without_home(mask_secrets(summary))))
    replace_bytes(file, with_records(file, added))
    marker(file).unlink(missing_ok=True)


def _values_in(file: Path) -> Iterable[tuple[int, str]]:
    """Every logged value as its step and its name."""
    for message in messages_of(file):
        if message.HasField("history"):
            items = {item.key or ".".join(item.nested_key): item.value_json for item in message.history.item}
            step = int(float(items.get(AXIS, "-1")))
            yield from ((step, name) for name in items)


def _history(number: int, values: Mapping[str, Any]) -> bytes:
    from wandb.proto.wandb_internal_pb2 import Record

    message = Record()
    message.history.step.num = number
    for name, value in values.items():
        item = message.history.item.add(value_json=_json(value))
        item.nested_key.append(name)
    return bytes(message.SerializeToString())


def _summary(values: Mapping[str, Any]) -> bytes:
    from wandb.proto.wandb_internal_pb2 import Record

    message = Record()
    for name, value in values.items():
        item = message.summary.update.add(value_json=_json(value))
        item.nested_key.append(name)
    return bytes(message.SerializeToString())


def _json(value: Any) -> str:
    """Numbers that JSON lacks as W&B's client writes them."""
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return json.dumps(value)
