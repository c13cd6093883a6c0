"""Checks of the files of runs: those that carry checksums, those that were never finished, those of nobody."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headtohead.errors import UsageError
from headtohead.files.atomic_write import SUFFIX
from headtohead.files.safe_read import DamagedFile, read_json, read_yaml
from headtohead.records.keeping.archive import ARCHIVE, check_archive
from headtohead.records.keeping.changes import DELETED, held
from headtohead.records.run_folder import CONFIG, METRICS, RECORD, TOKENIZER, RunFolder, find_runs

_ZIPPED = (".ckpt", ".npz", ".pt")
"""Files that are zip archives, with a checksum of everything in them."""
_YOUNG_SECONDS = 3600.0
"""A file that was not finished in this time never will be."""
_SIGNS = (CONFIG, METRICS, "leases", "checkpoints")
"""The files of a folder that was to be a run, before its record was written or after it was lost."""


@dataclass(frozen=True)
class Fault:
    """Something that is wrong with a run."""

    path: Path
    sentence: str
    can_repair: bool = False
    """Whether putting it right loses nothing but what is lost already."""


def faults_below(root: Path) -> Iterator[Fault]:
    """Yield what is wrong with runs at or below a folder; a run that trains is not looked into."""
    runs = {run.path for run in find_runs(root)}
    for path in sorted(runs):
        yield from _faults_of(RunFolder(path))
    for folder in _orphans(root.absolute(), runs):
        is_leaving = folder.name.startswith(DELETED)
        what = "was being deleted" if is_leaving else f"looks like a run, but holds no {RECORD}"
        can_repair = is_leaving or _is_empty_start(folder)
        yield Fault(folder, what, can_repair)


def repair(fault: Fault) -> None:
    """Put a fault right: remove what was never finished, cut damaged lines from metrics.csv."""
    path = fault.path
    if path.name == METRICS:
        with held(path.parent) as run:
            run.metrics_file.drop_damaged()
    elif path.name.startswith(DELETED):
        shutil.rmtree(path)
    elif path.is_dir():
        RunFolder(path).abandon()
    else:
        path.unlink(missing_ok=True)


def _faults_of(run: RunFolder) -> Iterator[Fault]:
    if run.is_live():
        return
    try:
        run.read_record_as_written()
    except (UsageError, OSError) as error:
        yield Fault(run.path / RECORD, _why_unreadable(error))
    for name, read in ((CONFIG, read_yaml), (TOKENIZER, read_json)):
        if os.path.lexists(run.path / name):
            try:
                read(run.path / name)
            except (DamagedFile, OSError) as error:
                yield Fault(run.path / name, _why_unreadable(error))
    try:
        if num_damaged := run.metrics_file.num_damaged():
            yield Fault(run.metrics_file.path, f"has {num_damaged} damaged line(s)", can_repair=True)
    except (DamagedFile, OSError) as error:
        yield Fault(run.metrics_file.path, _why_unreadable(error))
    if os.path.lexists(run.path / ARCHIVE):
        try:
            check_archive(run.path)
        except (DamagedFile, OSError) as error:
            yield Fault(run.path / ARCHIVE, _why_unreadable(error))
    for folder, _, names in os.walk(run.path):
        for file in (Path(folder) / name for name in sorted(names)):
            if file.suffix == SUFFIX and file.name.startswith(".") and file.name != ".room.part":
                if _age(file) > _YOUNG_SECONDS:
                    yield Fault(file, "was never finished", can_repair=True)
            elif file.suffix in _ZIPPED and (why := _damage_of_zip(file)):
                yield Fault(file, why)


def _why_unreadable(error: Exception) -> str:
    """Return what is wrong with a file, without its path where the error has it apart."""
    if isinstance(error, DamagedFile):
        return error.what
    return f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)


def _damage_of_zip(file: Path) -> str | None:
    try:
        with zipfile.ZipFile(file) as bundle:
            bad = bundle.testzip()
    except (OSError, EOFError, zipfile.BadZipFile, NotImplementedError, zlib.error) as error:
        return f"is not a whole file ({error})"
    return None if bad is None else f"is damaged: the checksum of {bad} in it is wrong"


def _orphans(root: Path, runs: set[Path]) -> Iterator[Path]:
    for folder, below, names in os.walk(root):
        path = Path(folder)
        if path in runs:
            below.clear()
            continue
        if path.name.startswith(DELETED) or (RECORD not in names and len({*below, *names} & set(_SIGNS)) > 1):
            below.clear()
            if not RunFolder(path).is_live() and _age(path) > _YOUNG_SECONDS:
                yield path
        below[:] = sorted(name for name in below if not name.startswith(".") or name.startswith(DELETED))


def _is_empty_start(folder: Path) -> bool:
    """Return whether a run ended here before it had anything to lose."""
    return not (folder / METRICS).exists() and not (folder / "checkpoints").exists()


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0
