"""A probe that fails warns and lets the run go on, which in a test would hide its faults: here it raises."""

from __future__ import annotations

import logging

PROBE = logging.getLogger("headtohead.training.callbacks.attention_logger")


def refuse_warnings(record: logging.LogRecord) -> bool:
    if record.levelno >= logging.WARNING:
        raise AssertionError(record.getMessage())
    return True
