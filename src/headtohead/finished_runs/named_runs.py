"""The runs that paths name: run folders and folders above them, tables of other programs, runs in W&B."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.comparison.csv_runs import read_table
from headtohead.comparison.table_columns import NamedColumns
from headtohead.config.errors import ConfigurationError
from headtohead.records.index.run_index import RunIndex, UnreadRecord
from headtohead.records.metrics_file import Curve
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RECORD

IN_WANDB = "wandb:"
_TABLES = (".csv", ".tsv")


@dataclass
class NamedRuns:
    """Runs from wherever they were."""

    records: list[RunRecord] = field(default_factory=list)
    curves: dict[str, Curve] = field(default_factory=dict)
    """The curves of runs without a folder of their own, by run id."""
    remarks: list[str] = field(default_factory=list)
    """The remarks on how they were read."""
    unread: list[str] = field(default_factory=list)
    """Records that could not be read, a sentence each."""


def named_runs(paths: Iterable[str | Path], columns: NamedColumns) -> NamedRuns:
    """Open the named runs; `columns` name those of tables, and metric, arm and seed of runs in W&B that are not
    ours."""
    named = list(map(str, paths))
    _refuse_no_table(named, columns)
    result = NamedRuns()
    seen: set[Path] = set()
    served: dict[str, list[RunRecord]] = {}
    index = RunIndex()
    for path in named:
        if path.startswith(IN_WANDB):
            served[path], remarks = _in_wandb(path.removeprefix(IN_WANDB), columns)
            result.remarks += remarks
            continue
        folder = Path(path)
        _refuse_no_path(folder)
        if folder.suffix.lower() in _TABLES:
            table = read_table(folder, columns)
            result.records += table.records
            result.curves |= table.curves
            result.remarks += table.remarks
        else:
            _take_folder(folder, seen, result, index)
    index.close()
    _merge(served, result)
    if not result.records:
        why = f" ({'; '.join(result.unread)})" if result.unread else ": h2h train makes one"
        raise ConfigurationError(f"{' '.join(named)} holds no record that can be read{why}")
    return result


def _refuse_no_table(paths: Sequence[str], columns: NamedColumns) -> None:
    """Refuse names of columns where nothing is read that has them; every run has metrics."""
    served = [path for path in paths if path.startswith(IN_WANDB)]
    if any(Path(path).suffix.lower() in _TABLES for path in paths if path not in served):
        return
    read = {"metric", *(("arm", "seed") if served else ())}
    if unread := [f"--{what} {name}" for what, name in columns.named().items() if what not in read]:
        raise ConfigurationError(
            f"{' and '.join(unread)} would have no effect: columns are of .csv files, and none is given"
        )


def _refuse_no_path(path: Path) -> None:
    if not path.exists():
        raise ConfigurationError(
            f"{path} does not exist: give a run's folder, or one above it such as outputs, a .csv file, "
            f"or {IN_WANDB}ENTITY/PROJECT"
        )
    if path.name.startswith("offline-run-") or path.suffix == ".wandb":
        folder = next((above for above in path.absolute().parents if (above / RECORD).is_file()), None)
        way = (
            f"its record is next to it: give {folder}"
            if folder
            else "`wandb sync` uploads it; then give wandb:ENTITY/PROJECT"
        )
        raise ConfigurationError(f"{path} is W&B's own file of an offline run, which only W&B reads: {way}")
    if path.is_file() and path.name != RECORD and path.suffix.lower() not in _TABLES:
        raise ConfigurationError(f"{path} is neither a run folder nor a .csv file: export the table as .csv")


def _take_folder(path: Path, seen: set[Path], runs: NamedRuns, index: RunIndex) -> None:
    """A run that two paths lead to is one run; a record that cannot be read is reported."""
    for answer in index.records(path if path.is_dir() else path.parent):
        folder = Path(answer.path or "")
        if folder in seen:
            continue
        seen.add(folder)
        if isinstance(answer, UnreadRecord):
            runs.unread.append(answer.problem)
        else:
            runs.records.append(answer)


def _in_wandb(address: str, columns: NamedColumns) -> tuple[list[RunRecord], list[str]]:
    from headtohead.wandb_client.runs_as_records import RunKeys, runs_at
    from headtohead.wandb_client.wandb_tracker import reading_api

    return runs_at(address, reading_api, RunKeys(columns.metric, columns.arm, columns.seed))


def _merge(served: Mapping[str, Sequence[RunRecord]], runs: NamedRuns) -> None:
    """A run that is on disk too counts once, by its record, which tells more; so does one of two addresses, and one
    that was run twice."""
    ids = {record.wandb.id or record.id for record in runs.records}
    contents = {_content(record) for record in runs.records if record.status == "finished"}
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
            runs.remarks.append(f"{address}: {counted} among the others already, and counted once")
        runs.records += new


def _content(record: RunRecord) -> tuple[str, str] | None:
    """Return what two W&B runs of one arm share that two people, or two studies, made; None where it is not known."""
    return None if record.content_hash is None else (record.content_hash, record.arm)
