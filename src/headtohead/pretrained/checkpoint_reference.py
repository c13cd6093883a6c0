"""Published checkpoints as a configuration names them; nothing here imports torch."""

from __future__ import annotations

from pathlib import Path

PREFIX = "hf:"
_OF_PATHS = ("/", ".", "~")


def missing_folder(origin: str) -> str | None:
    """Return the refusal of hf:FOLDER where there is no such folder; None for one that is there, and for names."""
    reference = origin.removeprefix(PREFIX)
    if not reference.startswith(_OF_PATHS) or Path(reference).expanduser().is_dir():
        return None
    return f"init_from={origin}: there is no such folder; correct the path"
