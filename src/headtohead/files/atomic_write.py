"""Files are either old or new, never half-written; only this module replaces a file."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from typing_extensions import Buffer, override

from headtohead.files import disk_operations
from headtohead.files.disk_operations import OutOfDisk, is_full
from headtohead.files.leases import checked_write

SUFFIX = ".part"
"""Ends the name of a file that is not whole yet; its name begins with a dot."""
_BUFFER = 2**20
_SPARE = 2**16
"""Bytes for what belongs to a file besides its content: headers, and its entry in the folder."""


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: after a crash or a power cut at any moment, a reader sees either the old file or the new
    one.

    The bytes are on the disk before the name changes, and the name is before this returns. If `write` fails, the disk's
    own error is raised: a library that turns "no space left" into an error of its own is overruled.
    """
    handle, temporary = _temporary(path)
    raw = _Raw(handle)
    try:
        with io.BufferedWriter(raw, _BUFFER) as file:
            write(file)
            file.flush()
            disk_operations.system.sync(raw.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        with checked_write(path):
            disk_operations.system.rename(Path(temporary), path)
        disk_operations.system.sync_folder(path.parent)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if is_full(raw.trouble or error):
            raise OutOfDisk(path) from error
        raise


def replace_archive(path: Path, arrays: Mapping[str, object]) -> None:
    """Write arrays as .npz, atomically and without pickles; `open_archive` reads it.

    Before 2.2, NumPy's own `savez` leaves its archive open where the disk is full, and stores the argument that refuses
    pickles as an array.
    """
    import numpy as np

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(values), allow_pickle=False)

    replace_file(path, write)


def replace_by_name(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically, as `replace_file` does, with a library that takes a file name."""
    handle, temporary = _temporary(path)
    os.close(handle)
    unfinished = Path(temporary)
    try:
        write(unfinished)
        unfinished.chmod(0o666 & ~_umask())
        with checked_write(path):
            move_into_place(unfinished, path)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if is_full(error) or (isinstance(error, Exception) and disk_operations.system.free_bytes(path.parent) < _SPARE):
            raise OutOfDisk(path) from error  # not every library hands on what the disk said
        raise


def move_into_place(unfinished: Path, target: Path) -> None:
    """Give a file or a folder that is written its own name, once all that is in it is on the disk."""
    inside = sorted(unfinished.rglob("*"), reverse=True) if unfinished.is_dir() else []
    for path in [*inside, unfinished]:
        if path.is_symlink():
            continue
        if path.is_dir():
            disk_operations.system.sync_folder(path)
        else:
            _sync(path)
    disk_operations.system.rename(unfinished, target)
    for folder in {target.parent, unfinished.parent}:
        disk_operations.system.sync_folder(folder)


def move_away(path: Path, leaving: Path) -> None:
    """Give what is to be removed another name, by which nobody looks for it; the old one is free at once."""
    disk_operations.system.rename(path, leaving)
    disk_operations.system.sync_folder(leaving.parent)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        disk_operations.system.sync(file.fileno())


class Figure(Protocol):
    """The part of matplotlib's figure that this file calls."""

    def savefig(self, fname: BinaryIO, *, dpi: int, format: str) -> object: ...


def replace_figure(path: Path, figure: Figure, *, dpi: int) -> None:
    """Write a figure at once, in the format that the file's name ends with."""
    replace_file(path, lambda file: figure.savefig(file, dpi=dpi, format=path.suffix[1:].lower()))


def replace_bytes(path: Path, content: bytes) -> None:
    """Write these bytes to a file atomically."""
    replace_file(path, lambda file: file.write(content))


def replace_text(path: Path, text: str) -> None:
    """Write this text to a file atomically, as UTF-8."""
    replace_bytes(path, text.encode("utf-8"))


def write_each(files: Mapping[str, object], folder: Path) -> None:
    """Write each content as JSON under its name; where there are none, no folder is made."""
    for name, content in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / f"{name}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def require_space(path: Path, size: int) -> None:
    """Raise OutOfDisk where the disk has no room for a file of so many bytes beside the one that it replaces."""
    free = disk_operations.system.free_bytes(path.parent)
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
    """A file whose bytes go through `disk`, and which remembers the disk's errors."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle, "w")
        self.trouble: OSError | None = None

    @override
    def write(self, data: Buffer) -> int:
        try:
            return disk_operations.system.write(self.fileno(), data)
        except OSError as error:
            self.trouble = error
            raise


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[disk_operations.system.write(handle, data) :]


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


_OLDER = re.compile(r"\.(record\.json|config\.yaml|metrics\.csv|tokenizer\.json)\.\w{8}")
"""The unfinished files of older versions, named by six or eight letters."""


def remove_unfinished(folder: Path, *, older_than: float = 0.0) -> list[Path]:
    """Remove unfinished files from a folder and those one and two below it, and return what was removed.

    Give an age in seconds where others may be writing at this moment: a file that is being written is young.
    """
    oldest, removed = time.time() - older_than, []
    for depth in ("*", "*/*", "*/*/*"):
        for file in _unfinished(folder, depth):
            try:
                if file.lstat().st_mtime <= oldest:
                    file.unlink()
                    removed.append(file)
            except OSError:  # gone by itself, or not ours to remove
                continue
    return removed


def _unfinished(folder: Path, depth: str) -> Iterator[Path]:
    for file in folder.glob(depth):
        if (file.suffix == SUFFIX or _OLDER.fullmatch(file.name)) and not file.is_dir():
            yield file
