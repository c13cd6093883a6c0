"""A benchmark for the terminal: a table for each measure, then what each variant saves."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from headtohead.examining.bench.findings import Findings
from headtohead.examining.bench.measuring import Measurement
from headtohead.examining.bench.plan import Measure
from headtohead.examining.inspection_view import memory

_TITLES: dict[Measure, str] = {
    "step": "one training step: forward, backward, optimizer",
    "forward": "forward: the logits, without gradients",
    "evaluation": "evaluation: the loss, without gradients, nothing generated",
}


def show(findings: Findings) -> RenderableType:
    measures = list(dict.fromkeys(measure for measure, _ in findings.kinds()))
    return Group(*(_table(findings, measure) for measure in measures), _savings(findings), *_reasons(findings))


def duration(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _table(findings: Findings, measure: Measure) -> Table:
    variants = [variant for found, variant in findings.kinds() if found == measure]
    columns = findings.of(measure, variants[0])
    table = Table(title=_TITLES[measure], title_justify="left")
    table.add_column("variant")
    table.add_column("")
    for column in columns:
        table.add_column(f"{column.length:,}", justify="right")
    for name in ("growth", "at the end"):
        table.add_column(name, justify="right")
    for variant in variants:
        row, growth = findings.of(measure, variant), findings.growth(measure, variant)
        table.add_section()
        times = [duration(m.seconds) if m.status == "measured" else _word(m) for m in row]
        table.add_row(
            findings.label(variant), "time", *times, _exponent(growth.time), _exponent(growth.time_at_the_end)
        )
        peaks = [memory(m.peak_bytes) if m.status == "measured" else "" for m in row]
        table.add_row("", "memory", *peaks, _exponent(growth.memory), _exponent(growth.memory_at_the_end))
    base = findings.growth(measure, variants[0])
    table.caption = f"growth: exponent of the length; the declared FLOPs grow by {_exponent(base.flops)}"
    table.caption_justify = "left"
    return table


def _savings(findings: Findings) -> Table:
    base = findings.label(findings.plan.base)
    table = Table(title=f"against the {base}, at the longest length of both", title_justify="left")
    for name in ("variant", "measure", "length", "time", "memory"):
        table.add_column(name, justify="left" if name in ("variant", "measure") else "right")
    for saving in findings.savings():
        table.add_row(saving.variant, saving.measure, f"{saving.length:,}", _times(saving.time), _times(saving.memory))
    return table


def _times(ratio: float) -> str:
    return f"{ratio:.2f} x less" if ratio >= 1 else f"{1 / ratio:.2f} x more"


def _exponent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _word(m: Measurement) -> str:
    return {"out_of_memory": "memory", "left_out": "left out"}.get(m.status, m.status)


def _reasons(findings: Findings) -> list[str]:
    """Why something was not measured, each reason once."""
    told: dict[str, int] = {}
    for m in findings.measurements:
        if m.status != "measured":
            told.setdefault(f"{m.case.measure}, {findings.label(m.case.variant)}, {m.status}: {m.reason}", m.length)
    return [f"{reason} (from length {length:,})" for reason, length in told.items()]
