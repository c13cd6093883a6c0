"""Time and memory over length on logarithmic axes, one line a variant, its fitted exponent in the legend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.examining.bench.findings import Findings
from headtohead.examining.bench.measuring import Measurement
from headtohead.examining.bench.plan import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X"


def draw(findings: Findings, path: Path) -> None:
    """Two panels for each measure: seconds and bytes."""
    from matplotlib.figure import Figure

    measures: list[Measure] = list(dict.fromkeys(measure for measure, _ in findings.kinds()))
    figure = Figure(figsize=(11, 3.8 * len(measures)), layout="constrained")
    rows: Any = figure.subplots(len(measures), 2, squeeze=False)
    for (time, memory), measure in zip(rows, measures, strict=True):
        _panel(time, findings, measure, "seconds")
        _panel(memory, findings, measure, "peak_bytes")
    name = findings.device.get("name", "")
    figure.suptitle(f"{findings.config.get('name', '')} on {name}", fontsize=11)
    figure.savefig(path, dpi=130)


def _panel(axes: Axes, findings: Findings, measure: Measure, field: str) -> None:
    is_time = field == "seconds"
    variants = [variant for found, variant in findings.kinds() if found == measure]
    lengths: set[int] = set()
    for place, variant in enumerate(variants):
        points = [m for m in findings.of(measure, variant) if m.status == "measured"]
        growth = findings.growth(measure, variant)
        exponent = growth.time if is_time else growth.memory
        fitted = "" if exponent is None else f"  ~ length^{exponent:.2f}"
        axes.plot(
            [m.length for m in points],
            [getattr(m, field) / (1 if is_time else 2**20) for m in points],
            marker=_MARKERS[place % len(_MARKERS)],
            label=findings.label(variant) + fitted,
            linewidth=1.6,
            markersize=5,
        )
        lengths |= {m.length for m in points}
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted(lengths), [f"{length:,}" for length in sorted(lengths)])
    axes.minorticks_off()
    axes.set_xlabel("length in tokens")
    axes.set_ylabel("seconds" if is_time else "peak memory, MiB")
    axes.set_title(f"{measure}: {'time' if is_time else 'memory'}", fontsize=10)
    axes.grid(True, which="major", alpha=0.3)
    if is_time and lengths:
        _guides(axes, findings.of(measure, variants[0]))
    axes.legend(fontsize=7.5, frameon=False)


def _guides(axes: Axes, base: list[Measurement]) -> None:
    """Thin lines of slope 1 and 2 from the base's first point, to see the growth against."""
    points = [m for m in base if m.status == "measured"]
    if len(points) < 2:
        return
    first, last = points[0], points[-1]
    for slope in (1, 2):
        end = first.seconds * (last.length / first.length) ** slope
        axes.plot([first.length, last.length], [first.seconds, end], color="grey", linewidth=0.8, linestyle=":")
        axes.annotate(f"length^{slope}", (last.length, end), fontsize=7, color="grey", ha="right", va="bottom")
