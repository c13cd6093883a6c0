"""Files that are either old or new, never half-written."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headtohead.files.leases import checked_write


def replace_text(path: Path, text: str) -> None:
    """Write a whole file at once: a reader, or a crash at any moment, meets the old text or the new."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        with checked_write(path):
            Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_each(files: Mapping[str, Any], folder: Path) -> None:
    """As JSON, by name; no folder where there are none."""
    for name, content in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / f"{name}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
