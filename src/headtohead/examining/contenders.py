"""The runs that paths name: run folders and folders above them, tables of other programs, runs in W&B."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.building.errors import ConfigurationError
from headtohead.comparing.foreign.columns import Columns
from headtohead.comparing.foreign.runs import read_table
from headtohead.errors import UsageError
from headtohead.tracking.metrics import Curve
from headtohead.tracking.record import RunRecord
from headtohead.tracking.store import RECORD, find_runs

IN_WANDB = "wandb:"
_TABLES = (".csv", ".tsv")


@dataclass
class Contenders:
    """Runs from wherever they were."""

    records: list[RunRecord] = field(default_factory=list)
    curves: dict[str, Curve] = field(default_factory=dict)
    """Of runs without a folder of their own, by run id."""
    remarks: list[str] = field(default_factory=list)
    """How they were read."""
    unread: list[str] = field(default_factory=list)
    """Records that could not be read, a sentence each."""


def contenders(paths: Iterable[str | Path], columns: Columns) -> Contenders:
    """`columns` name those of tables, and metric, arm and seed of runs in W&B that are not ours."""
    found = Contenders()
    seen: set[Path] = set()
    served: dict[str, list[RunRecord]] = {}
    for path in map(str, paths):
        if path.startswith(IN_WANDB):
            served[path], remarks = _in_wandb(path.removeprefix(IN_WANDB), columns)
            found.remarks += remarks
            continue
        place = Path(path)
        _refuse_no_place(place)
        if place.suffix.lower() in _TABLES:
            table = read_table(place, columns)
            found.records += table.records
            found.curves |= table.curves
            found.remarks += table.remarks
        else:
            _take_folder(place, seen, found)
    _merge(served, found)
    if not found.records:
        why = f" ({'; '.join(found.unread)})" if found.unread else ": h2h train makes one"
        raise ConfigurationError(f"{' '.join(map(str, paths))} holds no record that can be read{why}")
    return found


def _refuse_no_place(place: Path) -> None:
    if not place.exists():
        raise ConfigurationError(
            f"{place} does not exist: give a run's folder, or one above it such as outputs, a .csv file, "
            f"or {IN_WANDB}ENTITY/PROJECT"
        )
    if place.name.startswith("offline-run-") or place.suffix == ".wandb":
        folder = next((above for above in place.absolute().parents if (above / RECORD).is_file()), None)
        way = (
            f"its record is beside it: give {folder}"
            if folder
            else "`wandb sync` uploads it; then give wandb:ENTITY/PROJECT"
        )
        raise ConfigurationError(f"{place} is W&B's own file of an offline run, which only W&B reads: {way}")
    if place.is_file() and place.name != RECORD and place.suffix.lower() not in _TABLES:
        raise ConfigurationError(f"{place} is no run folder and no .csv file: export the table as .csv")


def _take_folder(place: Path, seen: set[Path], found: Contenders) -> None:
    """A run that two paths lead to is one run; a record that cannot be read is told."""
    for folder in find_runs(place if place.is_dir() else place.parent):
        if folder.path in seen:
            continue
        seen.add(folder.path)
        try:
            found.records.append(folder.read_record())
        except (UsageError, OSError) as error:
            found.unread.append(str(error))


def _in_wandb(address: str, columns: Columns) -> tuple[list[RunRecord], list[str]]:
    from headtohead.tracking.wandb import reading_api
    from headtohead.tracking.wandb_runs import runs_at
    from headtohead.tracking.wandb_strangers import Names

    return runs_at(address, reading_api, Names(columns.metric, columns.arm, columns.seed))


def _merge(served: Mapping[str, Sequence[RunRecord]], found: Contenders) -> None:
    """A run that is on disk too counts once, by its record, which tells more; so does one of two addresses, and one
    that was run twice."""
    ids = {record.wandb.id or record.id for record in found.records}
    contents = {_content(record) for record in found.records if record.status == "finished"}
    for address, records in served.items():
        new = []
        for record in sorted(records, key=lambda record: record.status != "finished"):
            content = _content(record)
            if record.id in ids or (content is not None and content in contents):
                continue
            new.append(record)
            ids.add(record.id)
            contents |= {content} if record.status == "finished" else set()
        twice = len(records) - len(new)
        if twice:
            counted = "1 of these runs is" if twice == 1 else f"{twice} of these runs are"
            found.remarks.append(f"{address}: {counted} among the others already, and counted once")
        found.records += new


def _content(record: RunRecord) -> tuple[str, str] | None:
    """Return what two W&B runs of one arm share that two people, or two studies, made; None where it is not known."""
    return None if record.content_hash is None else (record.content_hash, record.place.arm or record.name)
