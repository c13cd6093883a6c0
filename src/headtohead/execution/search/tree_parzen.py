"""Optuna's tree-structured Parzen estimator: each suggestion follows from the trials before it and from its number,
so that a search that was interrupted resumes as if it had not been (https://arxiv.org/abs/2304.11127).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from headtohead.comparison.analyses.trials import Dimension, Setting, Trial, Value, ValueChoices
from headtohead.config.errors import ConfigurationError
from headtohead.execution.search.search_space import random_settings, rounded_value
from headtohead.execution.search.tuning import Tuning

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
