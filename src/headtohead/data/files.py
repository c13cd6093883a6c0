"""Local files as a user names them: found, read and decoded, with one sentence for whatever is wrong."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterable
from pathlib import Path
from stat import S_ISREG

from headtohead.data.contracts import DataError, SplitName

SPLIT_OF_NAME: dict[str, SplitName] = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
    "dev": "validation", "test": "test", "testing": "test",
}  # fmt: skip

TO_BE_APART: tuple[tuple[SplitName, SplitName], ...] = (
    ("validation", "train"),
    ("test", "train"),
    ("test", "validation"),
)
"""Splits that have no rows in common: else what was learned, or selected by, would be what is measured."""


def existing(path: str | None, field: str, example: str) -> Path:
    """The file or folder of a field of the configuration."""
    if path is None:
        raise DataError(f"{field} is missing: give {example}.")
    found = Path(path).expanduser()
    try:
        found.stat()
    except FileNotFoundError:
        raise DataError(f"{field}={path} does not exist (from {Path.cwd()}): correct the path.") from None
    except OSError as error:
        raise _unreadable(found, error) from error
    if not (found.is_file() or found.is_dir()):
        raise DataError(f"{field}={path} is neither a file nor a folder: correct the path.")
    return found


def bytes_of(file: Path) -> bytes:
    try:
        _refuse_irregular(file)
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error


def _refuse_irregular(file: Path) -> None:
    """A pipe would be waited for without end."""
    if not S_ISREG(file.stat().st_mode) and not file.is_dir():
        raise DataError(f"{file} is no regular file: give one.")


def _unreadable(file: Path, error: OSError) -> DataError:
    return DataError(f"{file} cannot be read: {error.strerror}.")


def decoded(file: Path, encoding: str, *, may_differ: bool = True) -> str:
    """Its text; of a file that ends in .gz, of what is packed in it. `may_differ` where data.encoding can say another
    encoding."""
    content = bytes_of(file)
    try:
        return (_unpacked(file, content) if file.suffix.lower() == ".gz" else content).decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"(byte {error.start} is {error.object[error.start]:#04x})"
        if not may_differ:
            raise DataError(f"{file} is not text in {encoding} {byte}: save it in that encoding.") from error
        likely = "utf-16" if error.object.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "latin-1"
        raise DataError(
            f"{file} is not text in data.encoding={encoding} {byte}: give its encoding, for instance "
            f"data.encoding={likely}."
        ) from error
    except LookupError as error:
        raise DataError(
            f"data.encoding={encoding} is unknown: give one that Python knows, such as utf-8 or latin-1."
        ) from error


def _unpacked(file: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} is not a whole gzip file ({error}): write it anew, or fetch it again.") from error


def content_digest(file: Path) -> str:
    """Of whatever size: never all of it is in memory."""
    try:
        _refuse_irregular(file)
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise _unreadable(file, error) from error


def twins(ours: Iterable[Path], others: Iterable[Path]) -> tuple[Path, Path] | None:
    """A file of ours and another one that holds the same; None where there is none."""
    by_size: dict[int, list[Path]] = {}
    for other in others:
        by_size.setdefault(other.stat().st_size, []).append(other)
    by_size.pop(0, None)
    for file in ours:
        for other in by_size.get(file.stat().st_size, ()):
            if content_digest(file) == content_digest(other):
                return file, other
    return None


def files_below(folder: Path, suffixes: Collection[str], field: str) -> list[Path]:
    """A file itself, or those of a folder, however deep, in the order of their names."""
    if folder.is_file():
        return [folder]
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix.lower() in suffixes)
    if not files:
        raise DataError(
            f"{field}={folder} is a folder without {' or '.join(sorted(suffixes))} files: correct the path."
        )
    return files


def split_of(path: Path, root: Path) -> SplitName | None:
    """The split that a file's name begins with, or that a folder on the way to it is called after: train.csv,
    test-00000-of-00003.parquet, validation/part.json."""
    *folders, last = path.relative_to(root).parts
    for part in (*folders, Path(last).stem):
        word = re.split(r"[-_.]", part.lower(), maxsplit=1)[0]
        if word in SPLIT_OF_NAME:
            return SPLIT_OF_NAME[word]
    return None


def check_shares(validation_share: float, test_share: float) -> dict[SplitName, float]:
    """What validation and test get of the samples; train gets what is left."""
    if min(validation_share, test_share) <= 0 or validation_share + test_share >= 1:
        raise DataError(
            f"data.validation_share={validation_share} and data.test_share={test_share} must be above 0, and "
            f"together below 1: what is left is for training."
        )
    return {"validation": validation_share, "test": test_share}
