"""A run that somebody deletes at any moment while runs are read stops no reader, and hides no other run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from headtohead.cli import main
from headtohead.records.keeping.verify import faults_below
from headtohead.records.record import Progress, RunRecord, Status
from headtohead.records.row_sums import write_rows
from headtohead.records.run_folder import RunFolder, scan
from headtohead.records.run_query import runs

_AUDITED = ("open", "os.scandir", "os.listdir")


class Deleter:
    """Deletes a folder just before the operation of a number that reads something in it."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.countdown = 0
        sys.addaudithook(self._heard)

    @contextmanager
    def before(self, operation: int, folder: Path) -> Iterator[None]:
        self.folder, self.countdown = folder, operation
        try:
            yield
        finally:
            self.folder = None

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        folder = self.folder
        if folder is None or event not in _AUDITED or not str(arguments[0]).startswith(str(folder)):
            return
        self.countdown -= 1
        if self.countdown == 0:
            self.folder = None  # what deletes is heard too
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def deleter() -> Deleter:
    return Deleter()


def write_run(path: Path, status: Status) -> None:
    run = RunFolder.create_at(path)
    run.write_record(RunRecord(id=run.id, name=run.id, status=status, metrics={"test": {"loss": 1.0}}))
    run.log(Progress(1), {"train/loss": 2.0})
    (path / "config.yaml").write_text("seed: 1\n")
    columns = {"row": np.arange(1), "loss": np.ones(1), "targets": np.ones(1)}
    write_rows(path, "test", columns, {"loss": ("loss", "targets")})
    run.release()


def listed(root: Path) -> Iterable[str]:
    return [Path(run.path).name for run in runs(root) if run.status != "unreadable"]


def scanned(root: Path) -> Iterable[str]:
    return [record.path.name for record in scan(root, on_error=lambda _: None) if record.path is not None]


def verified(root: Path) -> Iterable[str]:
    (odd := root / "default" / "odd").mkdir(exist_ok=True)
    (odd / "record.json").write_text("{")
    names = {Path(fault.path).relative_to(root / "default").parts[0] for fault in faults_below(root)}
    (odd / "record.json").unlink()
    odd.rmdir()
    return ["staying"] if "odd" in names and "staying" not in names else names


def compared(root: Path) -> Iterable[str]:
    with redirect_stdout(StringIO()) as printed:
        assert main(["compare", str(root)]) in (0, 1)
    return printed.getvalue().replace("│", " ").split()


@pytest.mark.parametrize("status", ["finished", "running"])
@pytest.mark.parametrize("read", [listed, scanned, verified, compared])
def test_a_run_that_vanishes_while_it_is_read_stops_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deleter: Deleter,
    read: Callable[[Path], Iterable[str]],
    status: Status,
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "outputs"
    write_run(root / "default" / "staying", "finished")
    vanishing, operation = root / "default" / "vanishing", 0
    while not vanishing.exists():
        operation += 1
        write_run(vanishing, status)
        with deleter.before(operation, vanishing):
            assert "staying" in read(root)
    assert operation > 1
