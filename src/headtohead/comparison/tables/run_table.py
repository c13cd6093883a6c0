"""Records side by side, one line each: how well, against which baseline, at what cost, how fast, and how it ended."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from headtohead.comparison.comparability import seed_of
from headtohead.records.record import RunRecord, Status
from headtohead.records.run_query import cut_to_cell
from headtohead.records.run_summary import headline_of

_STYLES: Mapping[Status, str] = {
    "finished": "green",
    "running": "blue",
    "interrupted": "yellow",
    "diverged": "red",
    "out_of_memory": "red",
    "out_of_disk": "red",
    "failed": "red",
}
_RESULTS, _COSTS = ("result", "baseline"), ("parameters", "FLOPs/token", "speed", "peak memory")
_ENERGY = ("energy", "J/token")
"""Costs that are shown where they were measured."""
_NAME = 8
_LONGEST_REASON = 1000
_UNKNOWN = "-"
_SMALL, _TINY = 0.01, 1e-6


@dataclass(frozen=True)
class TableLine:
    """One record as a comparison reads it; None where the record does not say."""

    id: str
    name: str
    arm: str
    """The arm as its study called it; outside studies its name."""
    group: str
    seed: int
    status: Status
    reason: str | None
    stage: str | None
    """test, validation, test_4x; given."""
    metric: str | None
    value: float | None
    baseline: float | None
    """The score of a model that learned nothing."""
    parameters: int | None
    flops_per_token: float | None
    """Training."""
    tokens_per_second: float | None
    samples_per_second: float | None
    peak_memory_bytes: float | None
    joules: float | None
    """The energy of training, as measured."""
    joules_per_token: float | None
    steps: int
    path: str | None
    """The run folder."""
    wandb: str | None
    """The address of the run's page, or the folder to upload from."""


def line_of(record: RunRecord, *, metric: str | None = None) -> TableLine:
    """Return a record's line; `metric` as in "accuracy" or "validation/loss", else what the record was selected by,
    or its accuracy or loss."""
    stage, name, value = headline_of(record, metric)
    totals = record.costs.get("totals", {})
    speed = record.throughput
    return TableLine(
        id=record.id,
        name=record.name or record.id,
        arm=record.arm,
        group=record.group,
        seed=seed_of(record),
        status=record.status,
        reason=record.reason,
        stage=stage,
        metric=name,
        value=value,
        baseline=record.baseline(stage, name) if stage and name else None,
        parameters=totals.get("parameters"),
        flops_per_token=totals.get("training_flops_per_token"),
        tokens_per_second=speed.get("tokens_per_second"),
        samples_per_second=speed.get("samples_per_second"),
        peak_memory_bytes=speed.get("peak_memory_bytes"),
        joules=speed.get("joules"),
        joules_per_token=speed.get("joules_per_token"),
        steps=record.progress.step,
        path=str(record.path) if record.path else None,
        wandb=_wandb(record),
    )


def lines_of(records: Iterable[RunRecord], *, metric: str | None = None) -> list[TableLine]:
    """Return one line per record, failed runs too, in the order of groups, names and seeds."""
    lines = [line_of(record, metric=metric) for record in records]
    return sorted(lines, key=lambda line: (line.group, line.name, line.seed, line.id))


def as_data(lines: Iterable[TableLine]) -> list[dict[str, Any]]:
    """Return the same as plain dictionaries, for JSON and CSV."""
    return [asdict(line) for line in lines]


def as_csv(lines: Sequence[TableLine]) -> str:
    """Numbers in full, one line per run."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [field.name for field in fields(TableLine)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(as_data(lines))
    return text.getvalue()


def as_table(lines: Iterable[TableLine], *, title: str | None = None) -> FittedTable:
    """Return the same for a terminal; seeds are shown where they differ."""
    displayed = list(lines)
    measured = any(line.joules is not None for line in displayed)
    costs = (*_COSTS, *(_ENERGY if measured else ()))
    whole = _lines_table(displayed, (*_RESULTS, *costs, "status"), title)
    return FittedTable(
        whole, [_lines_table(displayed, (*_RESULTS, "status"), title), _lines_table(displayed, costs, None)]
    )


def _lines_table(lines: Sequence[TableLine], columns: Sequence[str], title: str | None) -> Table:
    with_seed = len({line.seed for line in lines}) > 1
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("run", overflow="fold", min_width=_NAME)
    if with_seed:
        table.add_column("seed", justify="right", no_wrap=True)
    for name in columns:
        if name == "status":
            table.add_column(name, overflow="fold", min_width=_NAME)
        else:
            table.add_column(name, justify="left" if name == "result" else "right", no_wrap=True)
    for line in lines:
        seed = [str(line.seed)] if with_seed else []
        figures = _figures(line)
        # names are the user's own: plain text, never rich's markup
        table.add_row(Text(cut_to_cell(line.name)), *seed, *(figures[name] for name in columns))
    return table


def run_paths(lines: Iterable[TableLine]) -> Iterator[str]:
    """Yield where each run's record is, and where W&B has it: a page, or the folder to upload. Lines and no table, so
    that paths can be copied however narrow the terminal is."""
    for line in lines:
        record = f"{_from_here(line.path)}/record.json" if line.path else _UNKNOWN
        yield f"{line.name}\n  record: {record}\n  W&B: {_from_here(line.wandb) if line.wandb else _UNKNOWN}"


def _from_here(path: str) -> str:
    """A page's address as it is, a path as one would type it here."""
    return path if "://" in path else os.path.relpath(path)


def _figures(line: TableLine) -> dict[str, str | Text]:
    return {
        "result": _result(line),
        "baseline": number(line.baseline),
        "parameters": count(line.parameters),
        "FLOPs/token": count(line.flops_per_token),
        "speed": _speed(line),
        "peak memory": memory(line.peak_memory_bytes),
        "energy": energy(line.joules),
        "J/token": count(line.joules_per_token),
        "status": _status(line),
    }


def _status(line: TableLine) -> Text:
    text = line.status.replace("_", " ")
    return Text(
        cut_to_cell(f"{text}: {line.reason}" if line.reason else text, most=_LONGEST_REASON), style=_STYLES[line.status]
    )


def _wandb(record: RunRecord) -> str | None:
    link = record.wandb
    if link.url or not link.directory or not record.path:
        return link.url
    return str(record.path / link.directory)


def _result(line: TableLine) -> str:
    if line.metric is None:
        return _UNKNOWN
    stage = "" if line.stage == "test" else f" ({line.stage})"
    return f"{line.metric.replace('_', ' ')} {number(line.value)}{stage}"


def _speed(line: TableLine) -> str:
    if line.tokens_per_second:
        return f"{count(line.tokens_per_second)} tokens/s"
    return f"{count(line.samples_per_second)} samples/s" if line.samples_per_second else _UNKNOWN


def number(value: float | None) -> str:
    """Three decimals; two figures of what is smaller than they show, so that a small loss is not none."""
    if value is None:
        return _UNKNOWN
    if abs(value) >= 1000:
        return f"{value:.4g}"
    if 0 < abs(value) < _SMALL:
        return f"{value:.{1 - math.floor(math.log10(abs(value)))}f}" if abs(value) >= _TINY else f"{value:.2g}"
    return f"{value + 0.0:.3f}"  # adding 0 takes the sign off -0.0


def chance_text(value: float | None) -> str | None:
    """Return what stands below a table of results; None where nobody knows chance."""
    return None if value is None else f"chance, the score of a model that learned nothing: {number(value)}"


def count(value: float | None) -> str:
    """Three figures and a unit: 124 M, 1.28 P."""
    if value is None:
        return _UNKNOWN
    for limit, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}"


def energy(value: float | None) -> str:
    """Three figures of joules: 1.25 MJ."""
    return _UNKNOWN if value is None else f"{count(value)}{'' if abs(value) >= 999.5 else ' '}J"


def memory(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}" if value / limit < 1000 else f"{value / limit:.0f} {unit}"
    return f"{value:.0f} B"


_WIDE = 10_000


@dataclass(frozen=True)
class FittedTable:
    """The whole where there is room for it, else its parts."""

    whole: Table
    parts: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        requested = Measurement.get(console, options.update(max_width=_WIDE), self.whole).maximum
        yield from (self.whole,) if requested <= options.max_width else self.parts
