"""Files that are either old or new, never half-written: the only place where the package replaces one."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from typing_extensions import Buffer, override

from headtohead.files import disk
from headtohead.files.disk import OutOfDisk, is_full
from headtohead.files.leases import checked_write

SUFFIX = ".part"
"""Ends the name of a file that is not whole yet; its name begins with a dot."""
_BUFFER = 2**20
_SPARE = 2**16
"""Bytes for what belongs to a file besides its content: headers, and its entry in the folder."""


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a whole file at once: a reader, a crash or a power cut at any moment meets the old file or the new one.

    The bytes are on the disk before the name changes, and the name is before this returns. What `write` leaves unsaid
    when it fails is what the disk said: a library that turns "no space left" into an error of its own is overruled.
    """
    handle, temporary = _temporary(path)
    raw = _Raw(handle)
    try:
        with io.BufferedWriter(raw, _BUFFER) as file:
            write(file)
            file.flush()
            disk.system.sync(raw.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        with checked_write(path):
            disk.system.rename(Path(temporary), path)
        disk.system.sync_folder(path.parent)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if is_full(raw.trouble or error):
            raise OutOfDisk(path) from error
        raise


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a whole file of these bytes at once."""
    replace_file(path, lambda file: file.write(content))


def replace_text(path: Path, text: str) -> None:
    """Write a whole file of this text at once, as UTF-8."""
    replace_bytes(path, text.encode("utf-8"))


def write_each(files: Mapping[str, Any], folder: Path) -> None:
    """Write each content as JSON under its name; where there are none, no folder is made."""
    for name, content in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / f"{name}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def need_room(path: Path, size: int) -> None:
    """Raise OutOfDisk where the disk has no room for a file of so many bytes beside the one that it replaces."""
    free = disk.system.free_bytes(path.parent)
    if free < size + _SPARE:
        raise OutOfDisk(path, f" ({_megabytes(size)} MB are needed, and {_megabytes(free)} MB are free)")


def append_text(path: Path, text: str, *, header: str = "") -> None:
    """Add lines at the end of a file, in one piece; they outlive a kill of the process, and a new file opens with the
    header."""
    try:
        with checked_write(path), path.open("ab", buffering=0) as file:
            _write_all(file.fileno(), ((header if file.tell() == 0 else "") + text).encode("utf-8"))
    except OSError as error:
        if is_full(error):
            raise OutOfDisk(path) from error
        raise


class _Raw(io.FileIO):
    """A file whose bytes go through `disk`, and which remembers what went wrong there."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle, "w")
        self.trouble: OSError | None = None

    @override
    def write(self, data: Buffer) -> int:
        try:
            return disk.system.write(self.fileno(), data)
        except OSError as error:
            self.trouble = error
            raise


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[disk.system.write(handle, data) :]


def _temporary(path: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=f".{path.name}.", suffix=SUFFIX, dir=path.parent)
    except OSError as error:
        if is_full(error):
            raise OutOfDisk(path) from error
        raise


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
