"""Runs that are stopped at a chosen batch."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headtohead.records.record import RunRecord
from headtohead.training.run import train
from training.runs import TinyData, parts


def at_batch(number: int, action: Callable[[], None]) -> TinyData:
    """Data that does something while the n-th training batch is made; the next step still trains on it."""
    seen = 0

    def watch(rows: np.ndarray) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            action()

    return TinyData(on_batch=watch)


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def interrupted(folder: Path, batch: int, number: int = signal.SIGTERM, **changes: object) -> RunRecord:
    record = train(parts(folder, data=at_batch(batch, send(number)), **changes))
    assert record.status == "interrupted", record.reason
    return record
