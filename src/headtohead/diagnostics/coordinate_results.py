"""Evaluate a coordinate check: sizes by layer, and the power of the width that each grows with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.files.atomic_write import replace_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Drawn = TypeVar("Drawn", bound=Figure)

TOLERANCE = 0.25
"""An exponent so far from 0 is growth; few steps at small widths leave a tenth or two of finite size."""
LOGITS = "logits"
Quantity = Literal["size", "change"]
Verdict = Literal["flat", "grows", "shrinks", "fading", "no number"]


@dataclass(frozen=True)
class ActivationSize:
    """Mean absolute size of one place's output, and of what has changed in it since step 0."""

    width: int
    seed: int
    step: int
    layer: str
    size: float
    change: float


@dataclass(frozen=True)
class WidthExponent:
    """A width exponent is that of a power law in the width, by least squares on logarithms."""

    value: float
    error: float
    """Its standard error over the seeds; with one seed, nan."""


@dataclass(frozen=True)
class CoordinateResults:
    """A check as it is shown and saved."""

    measurements: tuple[ActivationSize, ...]
    """The sizes of activations, one for each layer, width, seed and step."""
    config: Mapping[str, Any]
    """The configuration of the smallest width."""

    @property
    def widths(self) -> list[int]:
        """Return the widths, the smallest first."""
        return sorted({m.width for m in self.measurements})

    @property
    def layers(self) -> list[str]:
        """Return the layers from the data to the logits."""
        return list(dict.fromkeys(m.layer for m in self.measurements))

    @property
    def last_step(self) -> int:
        """Return the last step that was measured."""
        return max(m.step for m in self.measurements)

    def mean(self, layer: str, step: int, quantity: Quantity, width: int) -> float:
        """Return the mean over seeds."""
        return float(np.mean([getattr(m, quantity) for m in self._of(layer, step) if m.width == width]))

    def exponent(self, layer: str, step: int, quantity: Quantity) -> WidthExponent | None:
        """Return None where something is 0 or no number: there is no power of it."""
        by_seed: dict[int, tuple[list[float], list[float]]] = {}
        for m in self._of(layer, step):
            value: float = getattr(m, quantity)
            if not (value > 0 and math.isfinite(value)):
                return None
            widths, values = by_seed.setdefault(m.seed, ([], []))
            widths.append(math.log(m.width))
            values.append(math.log(value))
        slopes = [float(np.polyfit(widths, values, 1)[0]) for widths, values in by_seed.values()]
        error = float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes)) if len(slopes) > 1 else math.nan
        return WidthExponent(float(np.mean(slopes)), error)

    def verdict(self, layer: str) -> Verdict:
        """Return the verdict on what training changed up to the last step."""
        exponent = self.exponent(layer, self.last_step, "change")
        if exponent is None:
            return "no number"
        if abs(exponent.value) <= TOLERANCE:
            return "flat"
        if exponent.value > 0:
            return "grows"
        return "fading" if layer == LOGITS and self._follows_start(exponent.value) else "shrinks"

    def _follows_start(self, value: float) -> bool:
        """Logits of drawn weights shrink by the root of the width, and so does what little training moves them by."""
        start = self.exponent(LOGITS, 0, "size")
        return start is not None and start.value < 0 and value > start.value - TOLERANCE / 2

    @property
    def is_flat(self) -> bool:
        """Return whether training changes every layer as much at every width."""
        return all(self.verdict(index) in ("flat", "fading") for index in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        rows = [
            {"place": index, "step": step, "quantity": quantity, "exponent": e.value, "error": _number(e.error)}
            for index in self.layers
            for step in range(self.last_step + 1)
            for quantity in ("size", "change")
            if (e := self.exponent(index, step, quantity)) is not None
        ]
        return {
            "widths": self.widths,
            "flat": self.is_flat,
            "tolerance": TOLERANCE,
            "exponents": rows,
            "verdicts": {index: self.verdict(index) for index in self.layers},
            "measurements": [
                {**asdict(m), "size": _number(m.size), "change": _number(m.change)} for m in self.measurements
            ],
            "config": dict(self.config),
        }

    def _of(self, layer: str, step: int) -> list[ActivationSize]:
        return [m for m in self.measurements if m.layer == layer and m.step == step]


def _number(value: float) -> float | None:
    """JSON has no word for what is not a number."""
    return value if math.isfinite(value) else None


_COLOURS: dict[Verdict, str] = {
    "flat": "green",
    "fading": "yellow",
    "grows": "bold red",
    "shrinks": "bold red",
    "no number": "bold red",
}


def show_coordinates(results: CoordinateResults) -> RenderableType:
    last = results.last_step
    steps = f"{last} step{'s' if last > 1 else ''}"
    table = Table(title=f"what {steps} of training change, mean absolute size", title_justify="left")
    table.add_column("after")
    for width in results.widths:
        table.add_column(f"{width:,}", justify="right")
    table.add_column("grows with width^", justify="right")
    table.add_column("")
    table.add_column("at step 0, width^", justify="right")
    for index in results.layers:
        changes = (f"{results.mean(index, last, 'change', width):.2g}" for width in results.widths)
        verdict = results.verdict(index)
        change, at_start = results.exponent(index, last, "change"), results.exponent(index, 0, "size")
        table.add_row(
            index, *changes, _exponent_text(change), Text(verdict, style=_COLOURS[verdict]), _exponent_text(at_start)
        )
    return Group(table, Text(_sentence(results)))


def _exponent_text(exponent: WidthExponent | None) -> str:
    if exponent is None:
        return "-"
    return f"{exponent.value:+.2f}" + ("" if math.isnan(exponent.error) else f" ±{exponent.error:.2f}")


def _sentence(results: CoordinateResults) -> str:
    by_place = {index: results.verdict(index) for index in results.layers}
    broken = {index: verdict for index, verdict in by_place.items() if verdict not in ("flat", "fading")}
    if not broken:
        fading = (
            " except the logits, which still depend on their initialisation" if "fading" in by_place.values() else ""
        )
        return f"Training changes every layer{fading} equally at every width (exponents within {TOLERANCE} of 0)."
    failing = ", ".join(f"{index}: {verdict}" for index, verdict in broken.items())
    return (
        f"Training does not change every layer equally at every width ({failing}): the best learning rate may depend "
        "on the width."
    )


_MARKERS = "osD^vP*X"


def plot_coordinates(results: CoordinateResults, path: Path) -> None:
    """Write the figure to a file."""
    from matplotlib.figure import Figure

    replace_figure(path, draw_coordinates(results, Figure), dpi=130)


def draw_coordinates(results: CoordinateResults, kind: type[Drawn]) -> Drawn:
    """Draw three panels: sizes at step 0, changes after the first step, changes after the last."""
    from matplotlib import colormaps

    panels: list[tuple[str, int, Quantity]] = [("size at step 0", 0, "size"), ("changed after step 1", 1, "change")]
    if results.last_step > 1:
        panels.append((f"changed after step {results.last_step}", results.last_step, "change"))
    figure = kind(figsize=(4.6 * len(panels), 4.4), layout="constrained")
    axes: Any = figure.subplots(1, len(panels), squeeze=False)[0]
    colours = colormaps["viridis"]
    layers = results.layers
    for panel, (title, step, quantity) in zip(axes, panels, strict=True):
        for number, index in enumerate(layers):
            colour = colours(0.9 * number / max(1, len(layers) - 1))
            _line(panel, results, index, step, quantity, colour, _MARKERS[number % len(_MARKERS)])
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(results.widths, [f"{width:,}" for width in results.widths])
        panel.minorticks_off()
        panel.set_xlabel("width")
        panel.set_title(title, fontsize=10)
        panel.grid(True, which="major", alpha=0.3)
        panel.legend(fontsize=7, frameon=False)
    axes[0].set_ylabel("mean absolute size")
    figure.suptitle(str(results.config.get("name", "")), fontsize=10)
    return figure


def _line(
    panel: Axes, results: CoordinateResults, layer: str, step: int, quantity: Quantity, colour: Any, marker: str
) -> None:
    exponent = results.exponent(layer, step, quantity)
    fitted = "" if exponent is None else f"  ~ width^{exponent.value:+.2f}"
    means = [results.mean(layer, step, quantity, width) for width in results.widths]
    panel.plot(results.widths, means, marker=marker, color=colour, label=layer + fitted, linewidth=1.5, markersize=4.5)
