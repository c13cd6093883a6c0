"""A run in an archive: its record, metrics and row scores stay where every comparison reads them, and all else is
compressed into one file beside them, from which it comes back as it was."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_file
from headtohead.files.safe_read import MOST_BYTES, DamagedFile, open_regular, parse_json
from headtohead.records.keeping.changes import held
from headtohead.records.row_sums import FOLDER as ROWS
from headtohead.records.run_folder import CONFIG, METRICS, RECORD, TOKENIZER
from headtohead.records.signatures import SIGNATURES

ARCHIVE = "archive.tar.gz"
_STAY = (RECORD, CONFIG, METRICS, TOKENIZER, SIGNATURES, ROWS, "leases", ARCHIVE)
_SUMS = "checksums.json"
"""The first file in an archive: what each of the others has to hold."""
_BLOCK = 2**20


def archive(path: Path | str) -> int:
    """Compress all of a run that comparisons do not read, and return how many bytes that saves.

    The archive is whole, on the disk and read back before anything is removed.
    """
    with held(path) as run:
        if (run.path / ARCHIVE).exists():
            raise UsageError(f"{run.path} is archived already: h2h runs restore brings its files back")
        files = sorted(_to_archive(run.path))
        if not files:
            return 0
        before = sum((run.path / name).stat().st_size for name in files)
        replace_file(run.path / ARCHIVE, lambda file: _write(file, run.path, files))
        check_archive(run.path)
        for name in {Path(name).parts[0] for name in files}:
            _remove(run.path / name)
        return before - (run.path / ARCHIVE).stat().st_size


def restore(path: Path | str) -> int:
    """Bring the files of an archived run back, and return how many."""
    with held(path) as run:
        if not (run.path / ARCHIVE).is_file():
            raise UsageError(f"{run.path} is not archived: nothing is to be restored")
        check_archive(run.path)
        number = 0
        for name, content in _contents(run.path / ARCHIVE):
            target = run.path / name
            if not target.parent.resolve().is_relative_to(run.path.resolve()):
                raise UsageError(f"{target.parent} leads out of the run by a link: remove it, then restore the run")
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, lambda file, content=content: shutil.copyfileobj(content, file, _BLOCK))  # type: ignore[misc]
            number += 1
        (run.path / ARCHIVE).unlink()
        return number


def check_archive(run: Path) -> None:
    """Raise DamagedFile where a file of the archive is not what was put in."""
    file = run / ARCHIVE
    try:
        with open_regular(file) as packed, gzip.open(packed) as stream:  # to the end, where its checksum is
            while stream.read(_BLOCK):
                pass
        with tarfile.open(file, "r:gz") as bundle:
            first = bundle.next()
            content = bundle.extractfile(first) if first is not None and first.name == _SUMS else None
            expected = _read_sums(file, content) if content is not None else {}
        actual = {name: _sum(content) for name, content in _contents(file)}
    except DamagedFile:
        raise
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        raise DamagedFile(file, f"is not a whole archive ({error})") from None
    if actual != expected:
        wrong = sorted(name for name in {*actual, *expected} if actual.get(name) != expected.get(name))
        raise DamagedFile(file, f"does not hold what was put in: {', '.join(wrong[:5])}")


def _read_sums(file: Path, content: IO[bytes]) -> dict[str, str]:
    """Return what each file has to hold, by name."""
    text = content.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise DamagedFile(file, f"begins with a list larger than {MOST_BYTES // 2**20} MiB, and is not read")
    sums = parse_json(text.decode(), file)
    if not isinstance(sums, dict):
        raise DamagedFile(file, "begins with no list of its files")
    return sums


def _to_archive(run: Path) -> Iterator[str]:
    for entry in run.iterdir():
        if entry.name in _STAY or entry.name.startswith(".") or entry.is_symlink():
            continue
        inside = [entry] if entry.is_file() else entry.rglob("*")
        if entry.is_dir() and any(one.is_symlink() for one in entry.rglob("*")):
            continue  # links lead to what is not the run's own
        yield from (one.relative_to(run).as_posix() for one in inside if one.is_file())


def _write(file: BinaryIO, run: Path, names: list[str]) -> None:
    sums = {}
    for name in names:
        with (run / name).open("rb") as content:
            sums[name] = _sum(content)
    text = json.dumps(sums, indent=1).encode()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as bundle:
        facts = tarfile.TarInfo(_SUMS)
        facts.size = len(text)
        bundle.addfile(facts, io.BytesIO(text))
        for name in names:
            bundle.add(run / name, arcname=name, recursive=False)


def _contents(file: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Yield the files of an archive one after the other; a name that leads out of the run is an error."""
    with tarfile.open(file, "r:gz") as bundle:
        for member in bundle:
            content = bundle.extractfile(member) if member.isfile() else None
            if member.name == _SUMS or content is None:
                continue
            if Path(member.name).is_absolute() or ".." in Path(member.name).parts:
                raise DamagedFile(file, f"holds a file that leads out of the run ({member.name[:60]})")
            yield member.name, content  # type: ignore[misc]


def _sum(content: BinaryIO | io.BufferedIOBase) -> str:
    total = hashlib.sha256()
    while block := content.read(_BLOCK):
        total.update(block)
    return total.hexdigest()


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
