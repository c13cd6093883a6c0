"""Somebody's CSV file as runs, one row a run, or one row a point of a run's curve; a cell that cannot be read is
refused with its line."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headtohead.comparison.table_columns import NamedColumns, TableError, chosen_columns, guess
from headtohead.files.safe_read import DamagedFile, read_text
from headtohead.records.metrics_file import Curve
from headtohead.records.record import Progress, RunRecord, StudyPosition
from headtohead.records.run_summary import UNNAMED_STAGE

JOB_TYPE = "foreign"
_AXES = ("tokens", "flops", "seconds")
_Key = tuple[str, int, str | None]
"""Arm, seed and task of a run."""


@dataclass(frozen=True)
class ExternalRuns:
    """Runs of another program, as far as a table tells of them."""

    records: list[RunRecord]
    curves: dict[str, Curve]
    """The curves of the metric, by run id, where rows are points of curves."""
    remarks: list[str]
    """The remarks on how the table was read."""


def read_table(path: Path, columns: NamedColumns) -> ExternalRuns:
    """A run per arm, seed and task. Without a step column a second row of one run is refused."""
    header, rows = read_rows(path)
    if is_wide(header):
        header, rows, columns = melted(header, rows, columns)
    named = chosen_columns(columns, header, str(path))
    runs: dict[_Key, list[CsvRow]] = {}
    for row in rows:
        task = row.text(named["task"]) if "task" in named else None
        runs.setdefault((row.text(named["arm"]), row.integer(named["seed"]), task), []).append(row)
    if "step" not in named:
        for key, rows_of_run in runs.items():
            _refuse_twice(key, rows_of_run, header, named)
        return _finished(runs, named, path, {})
    curves = {key: _curve(rows, named) for key, rows in runs.items()}
    ends = {key: _last_row(rows, named) for key, rows in runs.items()}
    return _finished({key: [end] for key, end in ends.items()}, named, path, curves)


def _finished(
    runs: Mapping[_Key, Sequence[CsvRow]], named: Mapping[str, str], path: Path, curves: Mapping[_Key, Curve]
) -> ExternalRuns:
    records = {key: _record(key, rows[-1], named, path.stem) for key, rows in runs.items()}
    remarks = [f"{path.name}: {named['metric']} of {_runs(len(records))} of another program, taken as given"]
    if curves:
        steps = sorted({record.progress.step for record in records.values()})
        ends = f"at step {steps[0]}" if len(steps) == 1 else f"between steps {steps[0]} and {steps[-1]}"
        remarks.append(f"a run's result is its last value by {named['step']}; the runs end {ends}")
    gone = [record for record in records.values() if record.status == "diverged"]
    if gone:
        diverged = ", ".join(f"{record.name} (seed {record.seed}, {record.reason})" for record in gone)
        remarks.append(f"without a finite {named['metric']}, and so counted as diverged: {diverged}")
    by_id = {records[key].id: curve for key, curve in curves.items() if len(curve)}
    return ExternalRuns(list(records.values()), by_id, remarks)


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def _record(key: _Key, row: CsvRow, named: Mapping[str, str], stem: str) -> RunRecord:
    arm, seed, task = key
    metric = named["metric"]
    value = row.number(metric)
    costs = {what: row.number(named[what]) for what in ("parameters", "flops", "tokens", "seconds") if what in named}
    record = RunRecord(
        id=f"{stem}-{row.line}",
        name=arm,
        job_type=JOB_TYPE,
        seed=seed,
        status="finished" if value is not None else "diverged",
        reason=None if value is not None else f"row {row.line}",
        place=StudyPosition(task, arm, seed),
        metrics={} if value is None else {UNNAMED_STAGE: {metric: value}},
        progress=Progress(
            step=row.integer(named["step"]) if "step" in named else 0,
            tokens=int(costs.get("tokens") or 0),
            flops=costs.get("flops") or 0.0,
            seconds=costs.get("seconds") or 0.0,
        ),
    )
    record.costs = {"totals": {"parameters": costs["parameters"]}} if costs.get("parameters") else {}
    return record


def _refuse_twice(key: _Key, rows: Sequence[CsvRow], header: Sequence[str], named: Mapping[str, str]) -> None:
    if len(rows) < 2:
        return
    arm, seed, task = key
    free = [name for name in header if name not in named.values()]
    ways = [f"--{what} {name}" for what in ("step", "task") if what not in named and (name := guess(what, free))]
    where = f" on {task}" if task else ""
    way = f"did you mean {' or '.join(ways)}?" if ways else "give one row a run, or name --step where rows are points"
    raise rows[1].refused(f"a second row of {arm}, seed {seed}{where}; the first is row {rows[0].line}: {way}")


def _curve(rows: Sequence[CsvRow], named: Mapping[str, str]) -> Curve:
    """The points that have a number."""
    curve = Curve()
    for row in _by_step(rows, named):
        value = row.number(named["metric"])
        if value is None:
            continue
        amounts = {what: row.number(named[what]) or 0.0 if what in named else 0.0 for what in _AXES}
        curve.step.append(row.integer(named["step"]))
        curve.epoch.append(0)
        curve.tokens.append(int(amounts["tokens"]))
        curve.flops.append(amounts["flops"])
        curve.seconds.append(amounts["seconds"])
        curve.value.append(value)
    return curve


def _last_row(rows: Sequence[CsvRow], named: Mapping[str, str]) -> CsvRow:
    """Return the last row with a value: an empty cell was not measured at that step, a written NaN was."""
    ordered = _by_step(rows, named)
    return next((row for row in reversed(ordered) if not row.is_empty(named["metric"])), ordered[-1])


def _by_step(rows: Sequence[CsvRow], named: Mapping[str, str]) -> list[CsvRow]:
    steps: dict[int, CsvRow] = {}
    for row in rows:
        step = row.integer(named["step"])
        if step in steps:
            who = f"{row.text(named['arm'])}, seed {row.text(named['seed'])}"
            raise row.refused(
                f"a second point of {who}, at {named['step']} {step}; the first is row {steps[step].line}"
            )
        steps[step] = row
    return [steps[step] for step in sorted(steps)]


_SEPARATOR = " - "
_BOUNDS = ("__MIN", "__MAX")
_SEEDED = re.compile(r"(?P<arm>.+?)(?:[-_ /.]+s|[-_ /.]*seed)[-_= ]?(?P<seed>\d+)", re.IGNORECASE)


def is_wide(header: Sequence[str]) -> bool:
    return sum(_SEPARATOR in name for name in header) > len(header) / 2


def melted(
    header: Sequence[str], rows: Sequence[CsvRow], columns: NamedColumns
) -> tuple[list[str], list[CsvRow], NamedColumns]:
    """Return the table with columns arm, seed, step and the metric; seeds come from names such as gpt-s3 or
    gpt_seed3."""
    where = rows[0].where
    runs = [name for name in header if _SEPARATOR in name and not name.endswith(_BOUNDS)]
    metrics = sorted({name.rpartition(_SEPARATOR)[2] for name in runs})
    metric = columns.metric or (metrics[0] if len(metrics) == 1 else None)
    if metric is None or metric not in metrics:
        raise TableError(
            f"{where} is a chart exported from W&B: --metric names one of its metrics, {', '.join(metrics)}"
        )
    step = columns.step or guess("step", [name for name in header if _SEPARATOR not in name])
    if step is None or step not in header:
        raise TableError(f"{where}: --step COLUMN is needed, the one that all runs share")
    chosen = [name for name in runs if name.rpartition(_SEPARATOR)[2] == metric]
    long = [
        CsvRow(row.line, {**_arm_and_seed(name), step: row.cells[step], metric: row.cells[name]}, where)
        for row in rows
        for name in chosen
        if row.cells[name].strip()
    ]
    empty = [name for name in chosen if not any(row.cells[name].strip() for row in rows)]
    if empty:
        raise TableError(f"{where}: the column {empty[0]} is empty: export the chart without this run")
    return ["arm", "seed", step, metric], long, replace(columns, metric=metric, step=step, arm="arm", seed="seed")


def _arm_and_seed(column: str) -> dict[str, str]:
    name = column.rpartition(_SEPARATOR)[0]
    match = _SEEDED.fullmatch(name)
    return {"arm": match["arm"], "seed": match["seed"]} if match else {"arm": name, "seed": "0"}


_MISSING = frozenset(("", "nan", "none", "null", "na", "n/a", "-", "inf", "+inf", "-inf", "infinity", "-infinity"))
_OVERFLOWS = 1e300
"""Larger values overflow where they are summed; a run with one has diverged."""
_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class CsvRow:
    """One line of a table."""

    line: int
    """The line in the file, from 1."""
    cells: Mapping[str, str]
    where: str
    """The file, for errors."""

    def refused(self, why: str) -> TableError:
        return TableError(f"{self.where}, row {self.line}: {why}")

    def text(self, column: str) -> str:
        """Return the cell's text on one line, without terminal control characters."""
        value = "".join(letter for letter in " ".join(self.cells[column].split()) if letter.isprintable())
        if not value:
            raise self.refused(f"{column} is empty")
        return value

    def integer(self, column: str) -> int:
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not value.is_integer():
            raise self.refused(f"{column} is {text}; expected a whole number, such as 0")
        return int(value)

    def number(self, column: str) -> float | None:
        """Return None where the cell is empty, or says that there is no finite number."""
        text = self.cells[column].strip()
        if text.lower() in _MISSING:
            return None
        try:
            value = float(text)
        except ValueError:
            comma = ": write decimals with a point" if "," in text else ""
            raise self.refused(
                f"{column} is {text}; expected a number, or nothing for a run that diverged{comma}"
            ) from None
        return value if abs(value) < _OVERFLOWS else None

    def is_empty(self, column: str) -> bool:
        return not self.cells[column].strip()


def read_rows(path: Path) -> tuple[list[str], list[CsvRow]]:
    """Header and rows; separated by commas, semicolons or tabs."""
    try:
        text = read_text(path)
    except (OSError, DamagedFile) as error:
        raise TableError(f"{path} cannot be read as a CSV file in UTF-8: {error}") from None
    return rows_of(text, str(path))


def rows_of(text: str, where: str) -> tuple[list[str], list[CsvRow]]:
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [name.strip() for name in next(_whole(reader, where), [])]
    _check_header(header, where)
    rows = []
    for cells in _whole(reader, where):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise TableError(f"{where}, row {reader.line_num}: {len(cells)} cells, and the header has {len(header)}")
        rows.append(CsvRow(reader.line_num, dict(zip(header, cells, strict=True)), where))
    if not rows:
        raise TableError(f"{where} holds no rows below its header")
    return header, rows


def _whole(reader: Iterator[list[str]], where: str) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise TableError(f"{where} is not read: {error}") from None


def _check_header(header: list[str], where: str) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if not any(header):
        raise TableError(f"{where} is empty: its first row names the columns")
    if twice:
        raise TableError(f"{where} has two columns named {twice[0] or '(nothing)'}: rename one")
