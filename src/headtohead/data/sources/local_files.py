"""Local files as a user names them: found, read and decoded, with one sentence for whatever is wrong."""

from __future__ import annotations

import gzip
import hashlib
import math
import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from headtohead.data.data_source import DataError, SplitName
from headtohead.data.sources.missing_values import MissingRows
from headtohead.field_group import FieldGroup
from headtohead.files.user_paths import missing_path_sentence
from headtohead.ranges import ShareLeavingSome

SPLIT_OF_NAME: dict[str, SplitName] = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
    "dev": "validation", "test": "test", "testing": "test",
}  # fmt: skip

_SPARE = 1.4
"""A share is made so much larger than needed, since documents are of different sizes."""

TO_BE_APART: tuple[tuple[SplitName, SplitName], ...] = (
    ("validation", "train"),
    ("test", "train"),
    ("test", "validation"),
)
"""Splits that have no rows in common: else what was learned, or selected by, would be what is measured."""


_FIRST_BYTES = {
    b"PK\x03\x04": "a zip archive, as workbooks of Excel are: unpack it, or save its sheet as CSV",
    b"\xd0\xcf\x11\xe0": "a workbook of Excel: save its sheet as CSV",
    b"\x1f\x8b": "packed by gzip: let its name end in .gz, or unpack it",
    b"BZh": "packed by bzip2: unpack it",
    b"\xfd7zXZ": "packed by xz: unpack it",
    b"\x28\xb5\x2f\xfd": "packed by zstd: unpack it",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"PAR1": "a Parquet file: read it by data=parquet",
    b"ARROW1": "an Arrow file: write it as Parquet, pandas.read_feather(...).to_parquet(...)",
    b"\x93NUMPY": "an array of NumPy: give it from Python, h2h.Study(data=numpy.load(...))",
    b"\x89HDF": "an HDF5 file: write its rows as Parquet or CSV",
    b"SQLite format 3": "a database of SQLite: write its rows as Parquet or CSV",
    b"%PDF": "a PDF: write its text to a .txt file",
    b"\x89PNG": "an image: give the folder that it lies in, data=image_folder",
    b"\xff\xd8\xff": "an image: give the folder that it lies in, data=image_folder",
}
"""Formats by the first bytes of their files, none of them text, with what to do about each."""


def existing_path(path: str | None, field: str, example: str) -> Path:
    """Return the file or folder of a field of the configuration."""
    if path is None:
        raise DataError(f"{field} is missing: give {example}.")
    if (sentence := missing_path_sentence(path, field)) is not None:
        raise DataError(sentence)
    result = Path(path).expanduser()
    try:
        result.stat()
    except OSError as error:
        raise _unreadable(result, error) from error
    if not (result.is_file() or result.is_dir()):
        raise DataError(f"{field}={path} is neither a file nor a folder: correct the path.")
    return result


def bytes_of(file: Path) -> bytes:
    try:
        _refuse_irregular(file)
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error


def _refuse_irregular(file: Path) -> None:
    """Refuse a pipe, which would block for ever."""
    if not S_ISREG(file.stat().st_mode) and not file.is_dir():
        raise DataError(f"{file} is not a regular file: give one.")


def _unreadable(file: Path, error: OSError) -> DataError:
    return DataError(f"{file} cannot be read: {error.strerror or error}.")


def decoded(file: Path, encoding: str, *, may_differ: bool = True) -> str:
    """Return the text of a file without a byte-order mark, unpacked if it ends in .gz. `may_differ` where
    data.encoding can name another encoding."""
    content = bytes_of(file)
    try:
        text = (_unpacked(file, content) if file.suffix.lower() == ".gz" else content).decode(encoding)
    except UnicodeDecodeError as error:
        if (binary := _binary_format(error.object)) is not None:
            raise DataError(f"{file} is not text, but {binary}.") from error
        byte = f"(byte {error.start} is {error.object[error.start]:#04x})"
        if not may_differ:
            raise DataError(f"{file} is not text in {encoding} {byte}: save it in that encoding.") from error
        likely = _likely_encoding(error.object)
        raise DataError(
            f"{file} is not text in data.encoding={encoding} {byte}: give its encoding, for instance "
            f"data.encoding={likely}."
        ) from error
    except LookupError as error:
        raise DataError(
            f"data.encoding={encoding} is unknown: give one that Python knows, such as utf-8 or latin-1."
        ) from error
    return text.removeprefix("\ufeff")


_CONTROLS = bytes(range(0x80, 0xA0))


def _likely_encoding(content: bytes) -> str:
    """Return an encoding of a text that is not UTF-8: that of Windows where bytes are in use that Latin-1 leaves to
    control characters, such as curly quotes, dashes and the euro."""
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    if content == content.translate(None, _CONTROLS):
        return "latin-1"
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _binary_format(content: bytes) -> str | None:
    """Return what a file is that is not text in any encoding, and what to do with it."""
    known = next((what for first, what in _FIRST_BYTES.items() if content.startswith(first)), None)
    if known is None and b"\0" in content and not content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "bytes of an unknown kind: give text, a table or images"
    return known


def suffix_of(file: Path) -> str:
    """Return the suffix of a file in small letters, of a packed one the suffix of what is in it: .csv of a.csv.gz."""
    return Path(file.name.lower().removesuffix(".gz")).suffix


def _unpacked(file: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} is not a whole gzip file ({error}): write it again, or fetch it again.") from error


def content_digest(file: Path) -> str:
    """Digest a file of any size without reading all of it into memory."""
    try:
        _refuse_irregular(file)
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise _unreadable(file, error) from error


def duplicates(ours: Iterable[Path], others: Iterable[Path]) -> tuple[Path, Path] | None:
    """Return a file of ours and another one with the same content; None where there is none."""
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
    """Return a file itself, or those of a folder, however deep, in the order of their names."""
    if folder.is_file():
        return [folder]
    files = sorted(file for file in folder.rglob("*") if file.is_file() and suffix_of(file) in suffixes)
    if not files:
        raise DataError(
            f"{field}={folder} is a folder without {' or '.join(sorted(suffixes))} files: correct the path."
        )
    return files


def split_of(path: Path, root: Path) -> SplitName | None:
    """Return the split that a file's name begins with, or that a folder on the way to it is called: train.csv,
    test-00000-of-00003.parquet, validation/part.json."""
    *folders, last = path.relative_to(root).parts
    for part in (*folders, Path(last).stem):
        word = re.split(r"[-_.]", part.lower(), maxsplit=1)[0]
        if word in SPLIT_OF_NAME:
            return SPLIT_OF_NAME[word]
    return None


@dataclass(frozen=True)
class HeldOutShares(FieldGroup):
    """The shares that validation and test get of the samples, where they have no rows of their own; train gets what
    is left."""

    validation_share: ShareLeavingSome = 0.05
    """The share of the train samples that is drawn for validation where it has no rows of its own."""
    test_share: ShareLeavingSome = 0.05
    """The share of the train samples that is drawn for the test where it has no rows of its own."""

    def shares(self) -> dict[SplitName, float]:
        """Return them by split; raise DataError where they leave nothing for training."""
        validation, test = self.validation_share, self.test_share
        if min(validation, test) <= 0 or validation + test >= 1:
            raise DataError(
                f"data.validation_share={validation} and data.test_share={test} must be above 0, and "
                f"together below 1: what is left is for training."
            )
        return {"validation": validation, "test": test}


def overrides_for_share(shares: Mapping[SplitName, float], share: float, lacking: Sequence[SplitName]) -> Sequence[str]:
    """Return the overrides that give held-out splits this share of all text; none where that is no way: train lacks
    text itself, or would be the smaller part."""
    enough = math.ceil(100 * share * _SPARE) / 100
    larger = {name: enough for name, own in shares.items() if own < enough}  # other rows are drawn
    if not shares.keys() >= set(lacking) or sum({**shares, **larger}.values()) > 0.5:
        return ()
    return [f"data.{name}_share={enough:g}" for name in larger]


@dataclass(frozen=True)
class FileSplits(HeldOutShares):
    """The files of each split, what is drawn from those of train where others have none, and which of their rows are
    read."""

    path: str | None = None
    validation_path: str | None = None
    test_path: str | None = None
    """A file or folder of the test split; None: from the folder that `path` names, else a share of the train
    samples."""
    missing: MissingRows = "refuse"
    """Whether rows that lack a value are refused or left out."""

    def paths(self) -> dict[SplitName, str | None]:
        """Return the path of each split."""
        return {"train": self.path, "validation": self.validation_path, "test": self.test_path}
