"""Checks the shapes in the signatures of what is made of tensors, in all tests, and lets no probe fail in silence."""

import logging

from jaxtyping import install_import_hook

# Of the tasks only the functions on tensors: beartype cannot check a method that returns Self on its own.
CHECKED = ["components", "architectures", "tasks.chunked_cross_entropy", "tasks.vocabulary"]

install_import_hook([f"headtohead.{name}" for name in CHECKED], "beartype.beartype")


def refuse_warnings(record: logging.LogRecord) -> bool:
    """A probe that fails warns and lets the run go on, which in a test would hide its faults."""
    if record.levelno >= logging.WARNING:
        raise AssertionError(record.getMessage())
    return True


logging.getLogger("headtohead.training.prober").addFilter(refuse_warnings)
