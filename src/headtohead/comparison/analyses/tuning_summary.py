"""Summarise how much tuning each arm received: its trials, the winner, whether that lies on an edge, and what fewer
trials would give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headtohead.comparison.analyses.trials import Dimension, Setting, Space, Trial, ValueChoices, ValueRange, best_of

SEARCHES = {"grid": "a grid", "random": "random draws", "optuna": "Optuna's suggestions"}


@dataclass(frozen=True)
class TuningDesign:
    """A tuning design is what every arm was given alike."""

    search: Literal["grid", "random", "optuna"]
    trials: int
    """The number of trials of each arm."""
    metric: str
    """The metric on validation that chooses."""
    direction: Literal["min", "max"]
    seed: int
    """The first seed of every trial; the runs that are compared have others."""
    steps: int | None = None
    """The steps of one trial; None means as many as the runs that are compared."""
    seeds: int = 1
    """The runs of one trial, from the first seed on; a setting counts by their mean."""

    @property
    def larger_is_better(self) -> bool:
        return self.direction == "max"


def seeds_in_words(first: int, number: int) -> str:
    """Return the words for the seeds of each trial."""
    return f"seed {first}" if number == 1 else f"seeds {first} to {first + number - 1} each, by their mean"


@dataclass(frozen=True)
class Edge:
    """A field whose best value is the last that the space has."""

    field: str
    side: Literal["lowest", "highest"]
    value: float


@dataclass(frozen=True)
class ArmTuning:
    """An arm's tuning is what it received."""

    arm: str
    space: Space
    trials: tuple[Trial, ...]
    """Those that ended."""
    best: Trial | None
    """Return None where nothing finished."""
    edges: tuple[Edge, ...]
    best_of_k: tuple[float | None, ...]
    """The expected best of 1, 2 ... trials; None where one of so many may be the best of those that did not finish."""
    flops: float
    """The FLOPs of all trials."""

    @property
    def finished(self) -> int:
        return sum(trial.status == "finished" for trial in self.trials)

    @property
    def diverged(self) -> int:
        return sum(trial.status == "diverged" for trial in self.trials)

    @property
    def failed(self) -> int:
        """Return how many trials failed for other reasons."""
        return len(self.trials) - self.finished - self.diverged


@dataclass(frozen=True)
class TuningSummary:
    """A tuning summary covers all arms."""

    design: TuningDesign
    arms: tuple[ArmTuning, ...]

    @property
    def sentence(self) -> str:
        """Say how much tuning each number received."""
        design = self.design
        counts = {arm.arm: len(arm.trials) for arm in self.arms}
        if set(counts.values()) != {design.trials}:
            progress = ", ".join(f"{arm} {count}" for arm, count in counts.items())
            return f"Each arm will receive {design.trials} trials; so far {progress}."
        alike = all(dict(arm.space) == dict(self.arms[0].space) for arm in self.arms)
        over = "the same space" if alike else "a space of the same width around its own learning rate"
        length = "" if design.steps is None else f" of {design.steps} steps"
        return (
            f"Each arm received {design.trials} trials{length}, {SEARCHES[design.search]} over {over}, with "
            f"{seeds_in_words(design.seed, design.seeds)}; the best by {design.metric} was run again on other seeds."
        )

    @property
    def sentences(self) -> list[str]:
        """Return one for each arm."""
        return [_sentence(self.design, arm) for arm in self.arms]

    @property
    def remarks(self) -> list[str]:
        """List the reasons not to call an arm well tuned."""
        return [remark for arm in self.arms for remark in _remarks(self.design, arm)]


def tuning_summary(design: TuningDesign, tried: Mapping[str, tuple[Space, Sequence[Trial]]]) -> TuningSummary:
    """Summarise each arm's space and its finished trials."""
    return TuningSummary(design, tuple(_of_arm(design, arm, space, trials) for arm, (space, trials) in tried.items()))


def edges_of(space: Space, best: Setting, trials: int) -> Iterator[Edge]:
    """Fields whose value lies nearer to an end of the space than half of what separates so many trials."""
    for key, dimension in space.items():
        value = best.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or _extent(dimension) is None:
            continue
        part, nearness = _position(dimension, float(value)), _nearness(dimension, trials)
        if part <= nearness and value != 0:  # there is nothing below zero to widen to
            yield Edge(key, "lowest", float(value))
        elif part >= 1 - nearness:
            yield Edge(key, "highest", float(value))


def _of_arm(design: TuningDesign, arm: str, space: Space, trials: Sequence[Trial]) -> ArmTuning:
    best = best_of(trials, larger_is_better=design.larger_is_better)
    curve = expected_best([trial.value for trial in trials], larger_is_better=design.larger_is_better)
    return ArmTuning(
        arm=arm,
        space=space,
        trials=tuple(trials),
        best=best,
        edges=() if best is None else tuple(edges_of(space, best.setting, design.trials)),
        best_of_k=tuple(float(value) if math.isfinite(value) else None for value in curve),
        flops=sum(trial.flops for trial in trials),
    )


def _extent(dimension: Dimension) -> tuple[float, float] | None:
    """Return None where there is no order, or nothing to choose."""
    if isinstance(dimension, ValueRange):
        return dimension.low, dimension.high
    numbers = dimension.numbers
    return (numbers[0], numbers[-1]) if len(numbers) > 1 else None


def _position(dimension: Dimension, value: float) -> float:
    """0 at the lowest, 1 at the highest."""
    if isinstance(dimension, ValueChoices):
        return dimension.numbers.index(value) / (len(dimension.numbers) - 1)
    low, high = dimension.low, dimension.high
    if dimension.scale == "log":
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _nearness(dimension: Dimension, trials: int) -> float:
    if isinstance(dimension, ValueChoices):
        return 0.5 / (len(dimension.numbers) - 1)
    if dimension.kind == "int" and dimension.scale == "linear":
        return 0.5 / (dimension.high - dimension.low)
    return 0.5 / (trials if dimension.points is None else dimension.points - 1)


def _sentence(design: TuningDesign, arm: ArmTuning) -> str:
    space = ", ".join(f"{key} {dimension.words}" for key, dimension in arm.space.items())
    ended = [f"{arm.finished} finished"]
    ended += [f"{count} {how}" for count, how in ((arm.diverged, "diverged"), (arm.failed, "failed")) if count]
    opening = f"{arm.arm}: {len(arm.trials)} of {design.trials} trials over {space}, {', '.join(ended)}"
    if arm.best is None:
        return f"{opening}."
    return f"{opening}; {arm.best.setting.words} was best, {design.metric} {arm.best.value:.4g}."


def _remarks(design: TuningDesign, arm: ArmTuning) -> Iterator[str]:
    if arm.best is None and len(arm.trials) == design.trials:
        yield f"{arm.arm}: none of {design.trials} trials finished, so that its runs have the settings they came with"
    for edge in arm.edges:
        beyond = "above" if edge.side == "highest" else "below"
        yield (
            f"{arm.arm}: the best {edge.field}, {edge.value:.3g}, lies on the edge of its space, and a better one may "
            f"lie {beyond} it: where there is anything {beyond}, widen the space (tuning.space) and tune again"
        )


# The best of k trials to be expected, from n that were run (https://arxiv.org/abs/1909.03004), without its bias
# (https://arxiv.org/abs/2011.05500): the mean over all choices of k among them.


def expected_best(values: Sequence[float | None], *, larger_is_better: bool) -> NDArray[np.float64]:
    """Return the expected best of k trials for k = 1 ... n. None, a trial that diverged, is infinitely bad, and so is
    the mean while it can be the best."""
    from scipy import special

    worst = -np.inf if larger_is_better else np.inf
    trials = np.array([worst if value is None else value for value in values], dtype=np.float64)
    ordered = np.sort(trials) if larger_is_better else np.sort(trials)[::-1]
    num_trials = len(ordered)
    ranks, k = np.arange(1, num_trials + 1), np.arange(1, num_trials + 1)[:, None]
    chances = special.comb(ranks - 1, k - 1) / special.comb(num_trials, k)
    # 0 x infinity counts as nothing: that trial cannot be the best of so many
    result: NDArray[np.float64] = np.where(chances > 0, chances * np.where(chances > 0, ordered, 0.0), 0.0).sum(axis=1)
    return result
