"""Paths as a user types them are looked for before anything is imported that takes seconds."""

from __future__ import annotations

from pathlib import Path

from headtohead.errors import UsageError


def missing_path_sentence(path: str, field: str) -> str | None:
    """Return what is to be said of a path where nothing is; None where there is something, readable or not. The field,
    or the option, is the one that it was typed for; empty where it stands alone."""
    typed = " ".join(filter(None, (field, path))) if not field or field.startswith("-") else f"{field}={path}"
    try:
        Path(path).expanduser().stat()
    except FileNotFoundError:
        return f"{typed} does not exist (from {Path.cwd()}): correct the path."
    except RuntimeError:
        return f"{typed} lies in the home of a user who is not here: correct the path."
    except (OSError, ValueError):
        return None
    return None


def check_path(path: str, field: str) -> None:
    """Raise UsageError for a path where nothing is."""
    if (sentence := missing_path_sentence(path, field)) is not None:
        raise UsageError(sentence)
