"""Somebody's table as runs: one row a run, or one row a point of a run's curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.comparing.foreign.columns import Columns, guess, settled
from headtohead.comparing.foreign.rows import Row, read_rows
from headtohead.comparing.foreign.wide import is_wide, melted
from headtohead.comparing.table import GIVEN
from headtohead.tracking.metrics import Curve
from headtohead.tracking.record import Place, Progress, RunRecord

JOB_TYPE = "foreign"
_AXES = ("tokens", "flops", "seconds")
_Key = tuple[str, int, str | None]
"""Arm, seed and task of a run."""


@dataclass(frozen=True)
class ForeignRuns:
    """Runs of another program, as far as a table tells of them."""

    records: list[RunRecord]
    curves: dict[str, Curve]
    """Of the metric, by run id, where rows are points of curves."""
    remarks: list[str]
    """How the table was read."""


def read_table(path: Path, columns: Columns) -> ForeignRuns:
    """A run per arm, seed and task. Without a step column a second row of one run is refused."""
    header, rows = read_rows(path)
    if is_wide(header):
        header, rows, columns = melted(header, rows, columns)
    named = settled(columns, header, str(path))
    runs: dict[_Key, list[Row]] = {}
    for row in rows:
        task = row.text(named["task"]) if "task" in named else None
        runs.setdefault((row.text(named["arm"]), row.integer(named["seed"]), task), []).append(row)
    if "step" not in named:
        for key, found in runs.items():
            _refuse_twice(key, found, header, named)
        return _finished(runs, named, path, {})
    curves = {key: _curve(found, named) for key, found in runs.items()}
    ends = {key: _last_row(found, named) for key, found in runs.items()}
    return _finished({key: [end] for key, end in ends.items()}, named, path, curves)


def _finished(
    runs: Mapping[_Key, Sequence[Row]], named: Mapping[str, str], path: Path, curves: Mapping[_Key, Curve]
) -> ForeignRuns:
    records = {key: _record(key, found[-1], named, path.stem) for key, found in runs.items()}
    remarks = [f"{path.name}: {named['metric']} of {_runs(len(records))} of another program, taken as given"]
    if curves:
        steps = sorted({record.progress.step for record in records.values()})
        ends = f"at step {steps[0]}" if len(steps) == 1 else f"between steps {steps[0]} and {steps[-1]}"
        remarks.append(f"a run's result is its last value by {named['step']}; the runs end {ends}")
    gone = [record for record in records.values() if record.status == "diverged"]
    if gone:
        told = ", ".join(f"{record.name} (seed {record.seed}, {record.reason})" for record in gone)
        remarks.append(f"without a finite {named['metric']}, and so counted as diverged: {told}")
    by_id = {records[key].id: curve for key, curve in curves.items() if len(curve)}
    return ForeignRuns(list(records.values()), by_id, remarks)


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def _record(key: _Key, row: Row, named: Mapping[str, str], stem: str) -> RunRecord:
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
        place=Place(task, arm, seed),
        metrics={} if value is None else {GIVEN: {metric: value}},
        progress=Progress(
            step=row.integer(named["step"]) if "step" in named else 0,
            tokens=int(costs.get("tokens") or 0),
            flops=costs.get("flops") or 0.0,
            seconds=costs.get("seconds") or 0.0,
        ),
    )
    record.costs = {"totals": {"parameters": costs["parameters"]}} if costs.get("parameters") else {}
    return record


def _refuse_twice(key: _Key, rows: Sequence[Row], header: Sequence[str], named: Mapping[str, str]) -> None:
    if len(rows) < 2:
        return
    arm, seed, task = key
    free = [name for name in header if name not in named.values()]
    ways = [f"--{what} {name}" for what in ("step", "task") if what not in named and (name := guess(what, free))]
    where = f" on {task}" if task else ""
    way = f"did you mean {' or '.join(ways)}?" if ways else "give one row a run, or name --step where rows are points"
    raise rows[1].refused(f"a second row of {arm}, seed {seed}{where}; the first is row {rows[0].line}: {way}")


def _curve(rows: Sequence[Row], named: Mapping[str, str]) -> Curve:
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


def _last_row(rows: Sequence[Row], named: Mapping[str, str]) -> Row:
    """With a value: an empty cell was not measured at that step, a written NaN was."""
    ordered = _by_step(rows, named)
    return next((row for row in reversed(ordered) if not row.is_empty(named["metric"])), ordered[-1])


def _by_step(rows: Sequence[Row], named: Mapping[str, str]) -> list[Row]:
    steps: dict[int, Row] = {}
    for row in rows:
        step = row.integer(named["step"])
        if step in steps:
            who = f"{row.text(named['arm'])}, seed {row.text(named['seed'])}"
            raise row.refused(
                f"a second point of {who}, at {named['step']} {step}; the first is row {steps[step].line}"
            )
        steps[step] = row
    return [steps[step] for step in sorted(steps)]
