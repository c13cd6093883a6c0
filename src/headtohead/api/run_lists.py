"""Runs below folders, from Python: chosen by a filter, tagged, noted, archived, restored, deleted and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, overload

from headtohead.api.error_translation import python_errors
from headtohead.api.result import Result
from headtohead.errors import UsageError
from headtohead.ranges import Count, Limit, Positive
from headtohead.records import run_query
from headtohead.records.keeping import archive, changes, verify
from headtohead.records.keeping.changes import CheckpointKind, PrunePolicy
from headtohead.records.keeping.verify import Fault
from headtohead.records.run_summary import RunSummary

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class ChangedRuns(Result):
    """The runs, or checkpoints of runs, that an action changed, and those that it left alone."""

    action: str
    changed: Sequence[Path]
    left_alone: Mapping[Path, str]
    """The reason of each: a run that trains is never touched."""
    bytes_saved: int | None = None
    """The bytes on disk that the action freed; None for an action that frees none."""
    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        noun = "checkpoint" if self.action == "prune" else "run"
        room = "" if self.bytes_saved is None else f", {self.bytes_saved / 1e6:,.1f} MB saved"
        return f"{self.action}: {_counted(len(self.changed), noun)}{room}"

    @property
    def sentences(self) -> Sequence[str]:
        return list(self.left_alone.values())

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        done = [{"path": str(path), "changed": True, "reason": ""} for path in self.changed]
        return [*done, *({"path": str(path), "changed": False, "reason": why} for path, why in self.left_alone.items())]


def changed(
    action: str, paths: Iterable[Path], change: Callable[[Path], object], *, saves: bool = False
) -> ChangedRuns:
    """Change each of some runs, or files of runs; what cannot be changed is left alone. A change that saves room
    returns its bytes."""
    done: list[Path] = []
    left_alone: dict[Path, str] = {}
    saved = 0
    for path in paths:
        try:
            size = change(path)
        except (UsageError, OSError) as error:
            left_alone[path] = str(error) if isinstance(error, UsageError) else f"{path}: {error.strerror or error}"
        else:
            done.append(path)
            saved += size if isinstance(size, int) else 0
    return ChangedRuns(action, done, left_alone, saved if saves else None)


def check_tags(add: Sequence[str], remove: Sequence[str]) -> None:
    """Raise UsageError where no tag is named, or one that nobody could see."""
    if not (add or remove):
        raise UsageError("no tag is named: --add NAME or --remove NAME")
    changes.check_tags(add)


class FoundRuns(list[RunSummary], Result):  # type: ignore[misc]  # compared and hashed as a list
    """A list of runs that shows itself as a table, a row for each."""

    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        return f"{len(self)} run{'' if len(self) == 1 else 's'}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "name": run.name,
                "seed": run.seed,
                "status": run.status,
                "metric": f"{run.stage}/{run.metric}" if run.metric else None,
                "value": run.value,
                "parameters": run.costs.get("parameters"),
                "steps": run.progress.get("step"),
                "study": run.study,
                "path": run.path,
            }
            for run in self
        ]

    @python_errors
    def to_frame(self, columns: Sequence[str] = ()) -> DataFrame:
        """Return a frame with a row for each run; of any fields, `to_frame(["arm", "optimizer.lr", "test/loss"])`."""
        from pandas import DataFrame

        run_query.check_columns(self, columns, "--columns")
        rows = [{name: run_query.column_value(run, name) for name in columns} for run in self]
        return DataFrame(rows, columns=list(columns)) if columns else super().to_frame()

    @overload
    def __getitem__(self, index: SupportsIndex) -> RunSummary: ...

    @overload
    def __getitem__(self, index: slice) -> FoundRuns: ...

    def __getitem__(self, index: SupportsIndex | slice) -> RunSummary | FoundRuns:
        return FoundRuns(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    @property
    def paths(self) -> list[Path]:
        """Return the folders of the runs."""
        return [Path(run.path) for run in self]

    @python_errors
    def tag(self, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> ChangedRuns:
        """Add tags to the runs, and remove some: `runs(study).tag(add=["paper"])`."""
        check_tags(add, remove)
        return changed("tag", self.paths, lambda path: changes.tag(path, add=add, remove=remove))

    @python_errors
    def note(self, text: str) -> ChangedRuns:
        """Write a note into the record of the runs; an empty text removes it."""
        changes.check_note(text)
        return changed("note", self.paths, lambda path: changes.note(path, text))

    @python_errors
    def archive(self) -> ChangedRuns:
        """Compress all that comparisons do not read: `compare`, `runs` and the dashboard still read the runs."""
        return changed("archive", self.paths, archive.archive, saves=True)

    @python_errors
    def restore(self) -> ChangedRuns:
        """Bring the files of archived runs back."""
        return changed("restore", self.paths, archive.restore)

    @python_errors
    def delete(self) -> ChangedRuns:
        """Delete the runs, without asking: `runs("outputs", where="status=failed").delete()`.

        One whose status has changed since it was listed stays.
        """
        status = {Path(run.path): run.status for run in self}
        return changed("delete", self.paths, lambda path: _delete(path, status[path]), saves=True)

    @python_errors
    def prune(
        self, *, keep: CheckpointKind = "best", top: Count | None = None, disk: Positive | None = None
    ) -> ChangedRuns:
        """Remove checkpoints of finished runs: all but one kind, of all but the `top` best runs, beyond `disk` GB."""
        return changed("prune", self.unneeded(keep=keep, top=top, disk=disk), changes.remove, saves=True)

    @python_errors
    def unneeded(
        self, *, keep: CheckpointKind = "best", top: Count | None = None, disk: Positive | None = None
    ) -> list[Path]:
        """Return the checkpoints that `prune` would remove."""
        return list(changes.unneeded(self, PrunePolicy(keep, top, 1e9 * disk if disk else float("inf"))))


@python_errors
def runs(
    paths: str | Path | Sequence[str | Path] = "outputs", *, where: str = "", sort: str = "newest", limit: Limit = 0
) -> FoundRuns:
    """Return the runs below folders in short: `runs("outputs", where="d_model=64 status=finished", sort="test/loss")`.

    `where` is what `h2h list runs --where` takes: FIELD=VALUE with = != < <= > >= or ~, or words that a run's name,
    arm, group, study, status, notes or tags contain; - in front turns one round. `sort` is newest, oldest, name,
    result, status, or any field, with - in front from the largest down; `limit` keeps the first of them, 0 all.
    `.results["test/loss"]`, `.config["model.d_model"]` and `.progress["step"]` have the numbers of a run; `load_run`
    of its `.path` opens it. Records that have not changed since the last call are not read again.
    """
    return FoundRuns(run_query.runs(paths, where=where, sort=sort, limit=limit))


def _delete(path: Path, status: str) -> int:
    """Delete a run that is as it was when it was listed."""
    now = next((run.status for run in run_query.runs(path)), "gone")
    if now != status:
        raise UsageError(f"{path} stays: it was {status} when it was listed, and is {now}; list the runs again")
    return changes.delete(path)


@dataclass(frozen=True)
class VerifiedRuns(Result):
    """Verified runs have faults in their files, or none; some are repaired."""

    faults: Sequence[Fault]
    """The faults that are left."""
    repaired: Sequence[Fault] = ()
    """The faults that were repaired, none without `repair=True`."""
    unrepaired: Mapping[Fault, str] = field(default_factory=dict)
    """The reason of each fault whose repair failed."""
    __repr__ = Result.__repr__

    @classmethod
    def of(cls, checked: Sequence[CheckedFault]) -> VerifiedRuns:
        """Return the faults sorted by what became of them."""
        return cls(
            faults=[one.fault for one in checked if not one.is_repaired],
            repaired=[one.fault for one in checked if one.is_repaired],
            unrepaired={one.fault: one.reason for one in checked if one.reason},
        )

    @property
    def title(self) -> str:
        return f"{_counted(len(self.faults), 'fault')}, {len(self.repaired)} repaired"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        rows = [(fault, False) for fault in self.faults] + [(fault, True) for fault in self.repaired]
        return [
            {
                "path": str(fault.path),
                "fault": fault.sentence,
                "can_repair": fault.can_repair,
                "repaired": is_repaired,
                "reason": self.unrepaired.get(fault, ""),
            }
            for fault, is_repaired in rows
        ]


@dataclass(frozen=True)
class CheckedFault:
    """A checked fault is one that a verification came upon, with what became of it."""

    fault: Fault
    is_repaired: bool = False
    reason: str = ""
    """The reason why a repair failed."""


@python_errors
def verify_runs(paths: str | Path | Sequence[str | Path] = "outputs", *, repair: bool = False) -> VerifiedRuns:
    """Check the files of runs below folders: `verify_runs("outputs").faults` is empty where all is well.

    Checksums of checkpoints, row scores and archives are checked, and files that were never finished found. `repair`
    removes unfinished files and damaged lines of metrics.csv, and nothing else.
    """
    folders = [paths] if isinstance(paths, str | Path) else paths
    return VerifiedRuns.of(list(checked_faults([Path(folder) for folder in folders], repair=repair)))


def checked_faults(folders: Sequence[Path], *, repair: bool) -> Iterator[CheckedFault]:
    """Yield each fault as soon as it is known, repaired where that is requested and possible."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder: give the folder of a run, or one above it such as outputs")
    for folder in folders:
        for fault in verify.faults_below(folder):
            yield _repaired(fault) if repair and fault.can_repair else CheckedFault(fault)


def _repaired(fault: Fault) -> CheckedFault:
    try:
        verify.repair(fault)
    except (UsageError, OSError) as error:
        reason = str(error) if isinstance(error, UsageError) else str(error.strerror or error)
        return CheckedFault(fault, reason=reason)
    return CheckedFault(fault, is_repaired=True)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
