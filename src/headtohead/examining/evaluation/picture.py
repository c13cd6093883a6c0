"""The loss of some runs over the length that they read at once, and over the tokens in sight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.examining.evaluation.findings import Evaluation, Places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X"
_PER_DOUBLING = 4
"""Means that a curve over places has between a place and its double: single ones are noise."""


def draw(evaluations: Sequence[Evaluation], path: Path) -> None:
    """One line for each run; panels for what was measured: loss by length, loss by tokens in sight."""
    from matplotlib.figure import Figure

    by_length = any(len(found.points) > 1 for found in evaluations)
    by_place = any(point.places for found in evaluations for point in found.points)
    panels = [panel for panel, wanted in ((_lengths, by_length), (_places, by_place)) if wanted]
    figure = Figure(figsize=(7.0 * len(panels), 4.6), layout="constrained")
    axes: Any = figure.subplots(1, len(panels), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        panel(axis, evaluations)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _lengths(axes: Axes, evaluations: Sequence[Evaluation]) -> None:
    metric = evaluations[0].monitor
    lengths = sorted({point.length for found in evaluations for point in found.points if point.length})
    for place, found in enumerate(evaluations):
        known = [(point.length, point.metrics[metric]) for point in found.points if metric in point.metrics]
        axes.plot(*zip(*known, strict=True), marker=_MARKERS[place % len(_MARKERS)], label=_label(found, evaluations))
    stride = evaluations[0].stride
    axes.set_title(f"{evaluations[0].split}{'' if stride is None else f', windows {stride} apart'}", fontsize=10)
    axes.set_xlabel("tokens read at once")
    axes.set_ylabel(metric)
    _finish(axes, evaluations, lengths)


def _places(axes: Axes, evaluations: Sequence[Evaluation]) -> None:
    longest = 1
    for found in evaluations:
        point = max(found.points, key=lambda point: point.length or 0)
        if point.places is not None:
            places, losses = _binned(point.places)
            axes.plot(places, losses, label=_label(found, evaluations))
            longest = max(longest, len(point.places.loss))
    rows = max((point.length or 0 for found in evaluations for point in found.points), default=0)
    axes.set_title(f"{evaluations[0].split}{f', rows of {rows} tokens' if rows else ''}", fontsize=10)
    axes.set_xlabel("tokens in sight")
    axes.set_ylabel("loss")
    _finish(axes, evaluations, [2**power for power in range(longest.bit_length())])


def _binned(places: Places) -> tuple[np.ndarray, np.ndarray]:
    """Means over stretches that grow with the place."""
    tokens = np.array(places.tokens, dtype=float)
    losses = np.where(tokens > 0, np.array(places.loss), 0.0)
    sight = np.arange(1, len(tokens) + 1)
    stretch = np.floor(np.log2(sight) * _PER_DOUBLING).astype(int)
    weights, sums, sights = (np.bincount(stretch, weights=w) for w in (tokens, tokens * losses, tokens * sight))
    known = weights > 0
    return sights[known] / weights[known], sums[known] / weights[known]


def _finish(axes: Axes, evaluations: Sequence[Evaluation], ticks: Sequence[int]) -> None:
    trained = {found.trained_length for found in evaluations} - {None}
    for length in sorted(trained, key=str):
        axes.axvline(float(length or 0), color="grey", linestyle=":", linewidth=1.2, label=f"trained at {length}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)


def _label(found: Evaluation, beside: Sequence[Evaluation]) -> str:
    """The run's name, or its own id where another has the same name."""
    names = [other.name for other in beside]
    return found.name if names.count(found.name) == 1 else found.run
