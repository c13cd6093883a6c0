"""Sizes over width on logarithmic axes, a line for each place: before training, and what it changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.examining.coordinates.findings import Findings, Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X"


def draw(findings: Findings, path: Path) -> None:
    """Three panels: sizes at step 0, changes after the first step, changes after the last."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels: list[tuple[str, int, Quantity]] = [("size at step 0", 0, "size"), ("changed after step 1", 1, "change")]
    if findings.last_step > 1:
        panels.append((f"changed after step {findings.last_step}", findings.last_step, "change"))
    figure = Figure(figsize=(4.6 * len(panels), 4.4), layout="constrained")
    axes: Any = figure.subplots(1, len(panels), squeeze=False)[0]
    colours = colormaps["viridis"]
    places = findings.places
    for panel, (title, step, quantity) in zip(axes, panels, strict=True):
        for number, place in enumerate(places):
            colour = colours(0.9 * number / max(1, len(places) - 1))
            _line(panel, findings, place, step, quantity, colour, _MARKERS[number % len(_MARKERS)])
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(findings.widths, [f"{width:,}" for width in findings.widths])
        panel.minorticks_off()
        panel.set_xlabel("width")
        panel.set_title(title, fontsize=10)
        panel.grid(True, which="major", alpha=0.3)
        panel.legend(fontsize=7, frameon=False)
    axes[0].set_ylabel("mean absolute size")
    figure.suptitle(str(findings.config.get("name", "")), fontsize=10)
    figure.savefig(path, dpi=130)


def _line(panel: Axes, findings: Findings, place: str, step: int, quantity: Quantity, colour: Any, marker: str) -> None:
    exponent = findings.exponent(place, step, quantity)
    fitted = "" if exponent is None else f"  ~ width^{exponent.value:+.2f}"
    means = [findings.mean(place, step, quantity, width) for width in findings.widths]
    panel.plot(findings.widths, means, marker=marker, color=colour, label=place + fitted, linewidth=1.5, markersize=4.5)
