"""The tuning that a study gives to every arm alike, as its YAML writes it, and as one arm receives it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headtohead.comparison.analyses.trials import Space
from headtohead.comparison.analyses.tuning_summary import SEARCHES, seeds_in_words
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.run_config import RunConfig
from headtohead.execution.search.search_space import around, between
from headtohead.metrics import own_metric

LEARNING_RATE = "optimizer.lr"


@dataclass(frozen=True)
class Tuning:
    """The same number of trials over the same space for each arm."""

    search: Literal["grid", "random", "optuna"]
    trials: int
    """The number of trials of each arm."""
    space: Space = field(default_factory=dict)
    """The space by field; empty means learning rates around the arm's own."""
    seed: int = 1000
    """The first seed of every trial, and that of the search; none of the study's own."""
    metric: str | None = None
    """The metric on validation; None means the study's metric there."""
    direction: Literal["min", "max"] | None = None
    steps: int | None = None
    """The steps of one trial; None means those of the arm's runs."""
    seeds: int = 1
    """The runs of one trial, whose seeds follow the first; a setting counts by their mean."""

    @property
    def every_seed(self) -> range:
        """Return the seeds of a trial's runs."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def words(self) -> str:
        """Describe the tuning before the first run."""
        over = ", ".join(f"{key} {dimension.words}" for key, dimension in self.space.items())
        length = "" if self.steps is None else f" of {self.steps} steps"
        return (
            f"{self.trials} trials{length} for each arm, {SEARCHES[self.search]} over "
            f"{over or 'learning rates around its own'}, with {seeds_in_words(self.seed, self.seeds)}"
        )

    @property
    def larger_is_better(self) -> bool:
        return self.direction == "max"


def for_arm(tuning: Tuning, *, metric: str, direction: Literal["min", "max"], config: Mapping[str, Any]) -> Tuning:
    """Return the tuning with every field set; metric and direction are the study's, the configuration is that of the
    arm's runs."""
    chosen = tuning.metric or f"validation/{metric.partition('/')[2]}"
    space = tuning.space or {LEARNING_RATE: around(_learning_rate(config), tuning.trials)}
    if not tuning.space and tuning.search != "grid":
        space = {LEARNING_RATE: between(around(_learning_rate(config), tuning.trials))}
    known = tuning.direction or _direction(chosen, metric, direction)
    return replace(tuning, space=space, metric=chosen, direction=known)


def misfits(tuning: Tuning, *, seeds: Collection[int], offsets: Collection[int], metric: str) -> Iterator[str]:
    """Sentences about what does not fit the study's seeds, what is added to them in some arms, and its metric."""
    added = {0, *offsets}
    used = {seed + offset for seed in seeds for offset in added}
    if used & {seed + offset for seed in tuning.every_seed for offset in added}:
        free = max(used) - min(added) + 1
        yield (
            f"tuning.seed={tuning.seed} {'is' if tuning.seeds == 1 else 'and those after it reach'} a seed of the "
            f"study's own runs, which would then be tuned on themselves: set tuning.seed={free}"
        )
    own = (tuning.metric or metric).partition("/")[2]
    if tuning.direction is None and own != metric.partition("/")[2] and own_metric(own) is None:
        yield f"tuning.metric={tuning.metric} may be better when larger or smaller: set tuning.direction to min or max"


def _direction(chosen: str, metric: str, direction: Literal["min", "max"]) -> Literal["min", "max"]:
    """Return the study's direction for its own metric, and else the metric's; `misfits` has refused unknown ones."""
    own = own_metric(chosen)
    if chosen.partition("/")[2] == metric.partition("/")[2] or own is None or own.direction is None:
        return direction
    return own.direction


def _learning_rate(config: Mapping[str, Any]) -> float:
    rate = RunConfig(config).learning_rate
    if not isinstance(rate, int | float) or rate <= 0:
        raise ConfigurationError(
            f"{LEARNING_RATE}={show(rate)} has no learning rates around it: give tuning.space, for example "
            f"{{{LEARNING_RATE}: {{low: 0.0001, high: 0.01}}}}"
        )
    return float(rate)
