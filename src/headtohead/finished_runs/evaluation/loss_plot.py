"""The loss of some runs over the length that they read at once, and over the tokens in sight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headtohead.files.atomic_write import replace_figure
from headtohead.finished_runs.evaluation.evaluation_results import Evaluation, LossByPosition

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Drawn = TypeVar("Drawn", bound=Figure)

_MARKERS = "osD^vP*X"
_PER_DOUBLING = 4
"""Means that a curve over places has between a place and its double: single ones are noise."""


def plot_losses(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Write the figure of the losses to a file."""
    from matplotlib.figure import Figure

    path.parent.mkdir(parents=True, exist_ok=True)
    replace_figure(path, draw_losses(evaluations, Figure), dpi=130)


def draw_losses(evaluations: Sequence[Evaluation], kind: type[Drawn]) -> Drawn:
    """Draw one line for each run; panels for what was measured: loss by length, loss by tokens in sight."""
    by_length = any(len(evaluation.points) > 1 for evaluation in evaluations)
    by_position = any(point.places for evaluation in evaluations for point in evaluation.points)
    panels = [panel for panel, has_points in ((_lengths, by_length), (_positions, by_position)) if has_points]
    figure = kind(figsize=(7.0 * len(panels), 4.6), layout="constrained")
    axes: Any = figure.subplots(1, len(panels), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        panel(axis, evaluations)
    return figure


def _lengths(axes: Axes, evaluations: Sequence[Evaluation]) -> None:
    metric = evaluations[0].monitor
    lengths = sorted({point.length for evaluation in evaluations for point in evaluation.points if point.length})
    for index, evaluation in enumerate(evaluations):
        known = [(point.length, point.metrics[metric]) for point in evaluation.points if metric in point.metrics]
        axes.plot(
            *zip(*known, strict=True), marker=_MARKERS[index % len(_MARKERS)], label=_label(evaluation, evaluations)
        )
    stride = evaluations[0].stride
    axes.set_title(f"{evaluations[0].split}{'' if stride is None else f', windows {stride} apart'}", fontsize=10)
    axes.set_xlabel("tokens read at once")
    axes.set_ylabel(metric)
    _finish(axes, evaluations, lengths)


def _positions(axes: Axes, evaluations: Sequence[Evaluation]) -> None:
    longest = 1
    for evaluation in evaluations:
        point = max(evaluation.points, key=lambda point: point.length or 0)
        if point.places is not None:
            positions, losses = _binned(point.places)
            axes.plot(positions, losses, label=_label(evaluation, evaluations))
            longest = max(longest, len(point.places.loss))
    rows = max((point.length or 0 for evaluation in evaluations for point in evaluation.points), default=0)
    axes.set_title(f"{evaluations[0].split}{f', rows of {rows} tokens' if rows else ''}", fontsize=10)
    axes.set_xlabel("tokens in sight")
    axes.set_ylabel("loss")
    _finish(axes, evaluations, [2**power for power in range(longest.bit_length())])


def _binned(losses_by_position: LossByPosition) -> tuple[np.ndarray, np.ndarray]:
    """Return mean positions and losses of bins that grow with the position."""
    tokens = np.array(losses_by_position.tokens, dtype=float)
    losses = np.where(tokens > 0, np.array(losses_by_position.loss), 0.0)
    context = np.arange(1, len(tokens) + 1)
    bins = np.floor(np.log2(context) * _PER_DOUBLING).astype(int)
    weights, sums, contexts = (np.bincount(bins, weights=w) for w in (tokens, tokens * losses, tokens * context))
    known = weights > 0
    return contexts[known] / weights[known], sums[known] / weights[known]


def _finish(axes: Axes, evaluations: Sequence[Evaluation], ticks: Sequence[int]) -> None:
    trained = {evaluation.trained_length for evaluation in evaluations} - {None}
    for length in sorted(trained, key=str):
        axes.axvline(float(length or 0), color="grey", linestyle=":", linewidth=1.2, label=f"trained at {length}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)


def _label(evaluation: Evaluation, beside: Sequence[Evaluation]) -> str:
    """The run's name, or its own id where another has the same name."""
    names = [other.name for other in beside]
    return evaluation.name if names.count(evaluation.name) == 1 else evaluation.run
