"""The tuning that a study gives to every arm alike, as its YAML writes it and as one arm receives it, and the settings
that it tries: points on a grid, draws that depend on their number alone, or suggestions.

Suggestions are those of Optuna's tree-structured Parzen estimator (https://arxiv.org/abs/2304.11127): each follows from
the trials before it and from its number, so that a search that was interrupted resumes as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, islice, product
from typing import Any, Literal
from zlib import crc32

from headtohead.comparison.analyses.trials import Dimension, Setting, Space, Trial, Value, ValueChoices, ValueRange
from headtohead.comparison.analyses.tuning_summary import SEARCHES, seeds_in_words
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.run_config import RunConfig
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


def for_arm(tuning: Tuning, *, metric: str, direction: Literal["min", "max"], config: Mapping[str, object]) -> Tuning:
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


def _learning_rate(config: Mapping[str, object]) -> float:
    rate = RunConfig(config).learning_rate
    if not isinstance(rate, int | float) or rate <= 0:
        raise ConfigurationError(
            f"{LEARNING_RATE}={show(rate)} has no learning rates around it: give tuning.space, for example "
            f"{{{LEARNING_RATE}: {{low: 0.0001, high: 0.01}}}}"
        )
    return float(rate)


_FEW, _FACTOR_OF_FEW, _FACTOR = 5, math.sqrt(10), 2.0


def around(centre: float, trials: int) -> ValueChoices:
    """So many values, the centre one of them: a factor of 2 apart, few values a factor of sqrt(10)."""
    factor = _FACTOR_OF_FEW if trials <= _FEW else _FACTOR
    steps = range(-(trials // 2), trials - trials // 2)
    return ValueChoices(tuple(centre if step == 0 else _rounded(centre * factor**step) for step in steps))


def between(values: ValueChoices) -> ValueRange:
    """Return all from the lowest to the highest, for drawing from."""
    return ValueRange(min(values.numbers), max(values.numbers), "log")


def on_grid(space: Space) -> list[Setting]:
    """Return every combination, the last field moving first."""
    points = [[(key, value) for value in _points(dimension)] for key, dimension in space.items()]
    return [Setting(fields) for fields in product(*points)]


def random_settings(space: Space, seed: int) -> Iterator[Setting]:
    """Different ones without end, for all arms the same; asking for more leaves the first as they are."""
    seen: set[Setting] = set()
    for number in count():
        setting = Setting(tuple((key, _draw(dim, uniform_draw(seed, number, key))) for key, dim in space.items()))
        if setting not in seen:
            seen.add(setting)
            yield setting


def size_of(space: Space) -> float:
    """Return how many settings there are; infinity if a field may have any number."""
    return math.prod(_size(dimension) for dimension in space.values())


def rounded_value(dimension: ValueRange, value: float) -> Value:
    """A number one can read, within the bounds."""
    if dimension.kind == "int":
        return min(max(round(value), int(dimension.low)), int(dimension.high))
    if dimension.scale == "log":
        near = _rounded(value)
    else:
        near = round(value, 3 - math.floor(math.log10(dimension.high - dimension.low)))
    return min(max(near, dimension.low), dimension.high)


def _size(dimension: Dimension) -> float:
    if isinstance(dimension, ValueChoices):
        return len(dimension.values)
    return dimension.high - dimension.low + 1 if dimension.kind == "int" else math.inf


def _points(dimension: Dimension) -> Sequence[Value]:
    if isinstance(dimension, ValueChoices):
        return dimension.values
    last = (dimension.points or 1) - 1
    return list(dict.fromkeys(_at(dimension, index / last) for index in range(last + 1)))


def _draw(dimension: Dimension, part: float) -> Value:
    if isinstance(dimension, ValueChoices):
        return dimension.values[int(part * len(dimension.values))]
    return _at(dimension, part)


def _at(dimension: ValueRange, part: float) -> Value:
    """So far on the way from low to high."""
    low, high = dimension.low, dimension.high
    return rounded_value(
        dimension, low * (high / low) ** part if dimension.scale == "log" else low + (high - low) * part
    )


def uniform_draw(seed: int, number: int, key: str) -> float:
    """Drawn evenly from 0 to 1, for this place alone."""
    import numpy as np

    return float(np.random.default_rng((seed, number, crc32(key.encode()))).random())


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


FIRST = 4
"""Drawn at random, all at once: below that there is nothing to learn from."""
_ATTEMPTS = 20


def suggested(tuning: Tuning, tried: Sequence[Trial]) -> list[Setting]:
    """Return the first ones at random, then one at a time, none of them twice."""
    first = min(FIRST, tuning.trials)
    if len(tried) < first:
        return list(islice(random_settings(tuning.space, tuning.seed), len(tried), first))
    return [_next(tuning, tried)] if len(tried) < tuning.trials else []


def _next(tuning: Tuning, tried: Sequence[Trial]) -> Setting:
    known = {trial.setting for trial in tried}
    for attempt in range(_ATTEMPTS):
        setting = _suggestion(tuning, tried, attempt)
        if setting not in known:
            return setting
    return next(setting for setting in random_settings(tuning.space, tuning.seed) if setting not in known)


def _suggestion(tuning: Tuning, tried: Sequence[Trial], attempt: int) -> Setting:
    """Asked of a study that is made again from what was tried."""
    import numpy as np

    optuna = import_optuna()
    distributions = {key: _distribution(optuna, dimension) for key, dimension in tuning.space.items()}
    seed = np.random.SeedSequence((tuning.seed, len(tried), attempt)).generate_state(1)[0]
    with _quiet(optuna):
        study = optuna.create_study(
            direction="maximize" if tuning.larger_is_better else "minimize",
            sampler=optuna.samplers.TPESampler(seed=int(seed), n_startup_trials=1),
        )
        study.add_trials([_finished_trial(optuna, trial, distributions) for trial in tried])
        params = study.ask(distributions).params
    return Setting(tuple((key, _moderate(dimension, params[key])) for key, dimension in tuning.space.items()))


def _finished_trial(optuna: Any, trial: Trial, distributions: dict[str, Any]) -> Any:
    """Convert a trial for Optuna: one that diverged or ran out of memory is a bad setting; other failures say nothing
    about theirs."""
    states = optuna.trial.TrialState
    state = states.PRUNED if trial.status in ("diverged", "out_of_memory") else states.FAIL
    return optuna.trial.create_trial(
        state=state if trial.value is None else states.COMPLETE,
        value=trial.value,
        params=trial.setting.values,
        distributions=distributions,
    )


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    kinds = optuna.distributions
    if isinstance(dimension, ValueChoices):
        return kinds.CategoricalDistribution(dimension.values)
    log = dimension.scale == "log"
    if dimension.kind == "int":
        return kinds.IntDistribution(int(dimension.low), int(dimension.high), log=log)
    return kinds.FloatDistribution(dimension.low, dimension.high, log=log)


def _moderate(dimension: Dimension, value: Any) -> Value:
    return value if isinstance(dimension, ValueChoices) else rounded_value(dimension, value)


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def import_optuna() -> Any:
    """Return an extra, and how to get it where it is missing."""
    try:
        import optuna
    except ImportError:
        raise ConfigurationError(
            "tuning.search=optuna needs Optuna: pip install 'headtohead[tuning]', or set tuning.search=random"
        ) from None
    return optuna
