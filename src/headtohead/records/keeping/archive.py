"""A run in an archive: its record, metrics and row scores stay where every comparison reads them, and all else is
compressed into one file beside them, from which it comes back as it was."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO

from headtohead.errors import UsageError
from headtohead.files.atomic_write import remove_unfinished, replace_file, require_space
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

    The archive is whole, on the disk and read back before anything is removed. The same call continues one that was
    interrupted.
    """
    with held(path) as run:
        remove_unfinished(run.path)
        files, file = sorted(_to_archive(run.path)), run.path / ARCHIVE
        if os.path.lexists(file):
            _refuse_changed(run.path, check_archive(run.path))
            if not files:
                raise UsageError(f"{run.path} is archived already: restore it to have its files back")
        elif files:
            replace_file(file, lambda opened: _write(opened, run.path, files))
        sums = check_archive(run.path) if files else {}
        if added := sorted(set(files) - sums.keys()):
            raise UsageError(f"{run.path} was archived without {added[0]}: restore the run, then archive it again")
        saved = sum((run.path / name).stat().st_size for name in files) - (file.stat().st_size if files else 0)
        for name in {Path(name).parts[0] for name in files}:
            _remove(run.path / name)
        return saved


def restore(path: Path | str) -> int:
    """Bring the files of an archived run back, and return how many; nothing that was written since is replaced."""
    with held(path) as run:
        file = run.path / ARCHIVE
        if not file.is_file():
            raise UsageError(f"{run.path} is not archived: nothing is to be restored")
        sums = check_archive(run.path)
        _refuse_changed(run.path, sums)
        remove_unfinished(run.path)
        require_space(file, sum(member.size for member, _ in _contents(file)))
        for member, content in _contents(file):
            target = run.path / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, lambda opened, content=content: shutil.copyfileobj(content, opened, _BLOCK))  # type: ignore[misc]
        file.unlink()
        return len(sums)


def _refuse_changed(run: Path, sums: Mapping[str, str]) -> None:
    """Raise UsageError where a file of the archive has no place in the run, or has another content there."""
    for name, expected in sums.items():
        target = run / name
        if not target.parent.resolve().is_relative_to(run.resolve()):
            raise UsageError(f"{target.parent} leads out of the run by a link: remove it first")
        try:
            with open_regular(target) as content:
                is_other = _sum(content) != expected
        except FileNotFoundError:
            continue
        except (OSError, DamagedFile) as error:
            why = error.strerror if isinstance(error, OSError) else error.what
            raise UsageError(f"{run / ARCHIVE} holds {name[:60]}, which cannot be written there ({why})") from None
        if is_other:
            raise UsageError(f"{target} was changed after {ARCHIVE} was written: move one of them away first")


def check_archive(run: Path) -> dict[str, str]:
    """Return the checksum of each file in a run's archive; DamagedFile where one is not what was put in."""
    file = run / ARCHIVE
    try:
        with open_regular(file) as packed, gzip.open(packed) as stream:  # to the end, where its checksum is
            while stream.read(_BLOCK):
                pass
        with tarfile.open(file, "r:gz") as bundle:
            first = bundle.next()
            content = bundle.extractfile(first) if first is not None and first.name == _SUMS else None
            expected = _read_sums(file, content) if content is not None else {}
        actual = {member.name: _sum(content) for member, content in _contents(file)}
    except DamagedFile:
        raise
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        raise DamagedFile(file, f"is not a whole archive ({error})") from None
    if actual != expected:
        wrong = sorted(name for name in {*actual, *expected} if actual.get(name) != expected.get(name))
        raise DamagedFile(file, f"does not hold what was put in: {', '.join(wrong[:5])}")
    if inside := next((name for name in actual for above in Path(name).parents if str(above) in actual), None):
        raise DamagedFile(file, f"holds {inside}, and a file in the place of its folder")
    return actual


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
        if _stays(entry.name) or entry.is_symlink():
            continue
        inside = [entry] if entry.is_file() else entry.rglob("*")
        if entry.is_dir() and any(one.is_symlink() for one in entry.rglob("*")):
            continue  # links lead to what is not the run's own
        yield from (one.relative_to(run).as_posix() for one in inside if one.is_file())


def _stays(name: str) -> bool:
    """Return whether what has this name in a run's folder is never archived."""
    return name in _STAY or name.startswith(".")


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


def _contents(file: Path) -> Iterator[tuple[tarfile.TarInfo, BinaryIO]]:
    """Yield the files of an archive one after the other; one that no run would put there is an error."""
    with tarfile.open(file, "r:gz") as bundle:
        for member in bundle:
            content = bundle.extractfile(member) if member.isfile() else None
            if member.name == _SUMS or content is None:
                continue
            parts = Path(member.name).parts
            if not parts or Path(member.name).is_absolute() or ".." in parts:
                raise DamagedFile(file, f"holds a file that leads out of the run ({member.name[:60]})")
            if _stays(parts[0]):
                raise DamagedFile(file, f"holds {member.name[:60]}, which no archive of a run does")
            if member.issparse():  # it may say that it is larger than all disks
                raise DamagedFile(file, f"holds a file with holes ({member.name[:60]}), which no archive of a run does")
            yield member, content  # type: ignore[misc]


def _sum(content: BinaryIO | io.BufferedIOBase) -> str:
    total = hashlib.sha256()
    while block := content.read(_BLOCK):
        total.update(block)
    return total.hexdigest()


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
