"""Summarise a run at its end: its line of the table, where its record is, how to look at it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headtohead.cli.options import INTERRUPTED
from headtohead.cli.terminal import folded, note, show_table, visible
from headtohead.comparison.tables.results_table import results_table
from headtohead.comparison.tables.run_table import as_table, line_of
from headtohead.records.record import RunRecord
from headtohead.training.parallel.process_group import is_main_process
from headtohead.wandb_client.registered_sweeps import sweep_id
from headtohead.wandb_client.wandb_tracker import sync_command


def train_and_summarise(config: dict[str, Any], train: Callable[[dict[str, Any]], RunRecord]) -> int:
    """Only the first process of several says something."""
    _enable_package_log()
    record = train(config)
    code = {"finished": 0, "interrupted": INTERRUPTED}.get(record.status, 1)
    if not is_main_process():
        return 0  # Lightning kills all processes of a run when a helper ends with another code
    if sweep_id() and record.status in ("interrupted", "diverged"):
        code = 0  # an agent gives its sweep up after a few runs with another code, and these are results
    show_table(as_table([line_of(record)]))
    table = results_table(record)
    if table is not None:
        show_table(table)
    if record.path is not None:
        for line in _source_location(record, record.path):
            note(line)
    return code


def _enable_package_log() -> None:
    """Its log goes to standard error, a plain line each, once; other packages keep their own ways."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Folding("%(message)s"))
    logger = logging.getLogger("headtohead")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO if is_main_process() else logging.WARNING)
    logger.propagate = False


class _Folding(logging.Formatter):
    """Lines that fit the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return folded(visible(super().format(record), sys.stderr), sys.stderr)


def _source_location(record: RunRecord, folder: Path) -> list[str]:
    here = os.path.relpath(folder)
    lines = [f"record: {here}/record.json", f"see it beside others: h2h compare {os.path.relpath(folder.parent)}"]
    if record.status in ("interrupted", "out_of_disk"):
        lines.append(f"resume it: h2h train resume_from={here}")
    if record.wandb.url:
        lines.append(f"W&B: {record.wandb.url}")
    elif record.wandb.directory:
        lines.append(f"W&B, offline: upload it with {sync_command(folder)}")
    return lines
