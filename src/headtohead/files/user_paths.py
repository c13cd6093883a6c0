"""Paths as a user types them are looked for before anything is imported that takes seconds."""

from __future__ import annotations

from pathlib import Path

from headtohead.errors import UsageError


def missing_path_sentence(path: str, field: str) -> str | None:
    """Return what is to be said of a path where nothing is; None where there is something, readable or not."""
    try:
        Path(path).expanduser().stat()
    except FileNotFoundError:
        return f"{field}={path} does not exist (from {Path.cwd()}): correct the path."
    except (OSError, ValueError):
        return None
    return None


def check_path(path: str, field: str) -> None:
    """Raise UsageError for a path where nothing is."""
    if (sentence := missing_path_sentence(path, field)) is not None:
        raise UsageError(sentence)
