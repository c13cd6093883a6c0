"""What a sweep tries next: pure functions of the sweep and how its trials ended, so that every worker plans alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Literal

from headtohead.comparing.trials import Setting, Trial
from headtohead.studying.sweeping.sweep import Sweep
from headtohead.studying.tuning.space import chance, size_of
from headtohead.studying.tuning.tuning import Tuning

BATCH = 4
"""Bayesian search proposes so many at once: as many workers have something to do, and any number finds the same."""
_ATTEMPTS = 50
"""Draws in a row that were tried before: then everything has been tried."""


def proposals(sweep: Sweep, tried: Sequence[Trial]) -> list[Setting]:
    """The next trials as the search sees them, all of `tried` ended; none: it is over. `as_tried` turns them into what
    is run."""
    if sweep.method == "grid":
        return list(islice(_grid(sweep), len(tried), sweep.run_cap))
    assert sweep.run_cap is not None, "only a grid ends by itself"
    if sweep.method == "random":
        return list(islice(_drawn(sweep), len(tried), sweep.run_cap))
    wanted = min(BATCH, sweep.run_cap - len(tried))
    return [] if wanted <= 0 else _suggested(sweep, tried, wanted)


def as_tried(sweep: Sweep, asked: Setting) -> Setting:
    """Bayesian search sees chances where a parameter has a distribution."""
    if sweep.method != "bayes":
        return asked
    return Setting(tuple((key, sweep.swept[key].told(value)) for key, value in asked.fields))


def _grid(sweep: Sweep) -> Iterator[Setting]:
    """The last parameter moves first."""
    points = [[(key, value) for value in entry.points or ()] for key, entry in sweep.swept.items()]
    return (Setting(fields) for fields in product(*points))


def _drawn(sweep: Sweep) -> Iterator[Setting]:
    """Different ones; asking for more leaves the first as they are."""
    seen: set[Setting] = set()
    number, in_vain = 0, 0
    while in_vain < _ATTEMPTS:
        setting = Setting(tuple((key, entry.at(chance(sweep.seed, number, key))) for key, entry in sweep.swept.items()))
        if setting in seen:
            in_vain += 1
        else:
            in_vain = 0
            seen.add(setting)
            yield setting
        number += 1


def _suggested(sweep: Sweep, tried: Sequence[Trial], wanted: int) -> list[Setting]:
    """By Optuna; none twice, and those of one batch know of each other."""
    from headtohead.studying.tuning.tree_parzen import suggested

    space = {key: entry.dimension for key, entry in sweep.swept.items()}
    direction: Literal["min", "max"] = "max" if sweep.larger_is_better else "min"
    known = list(tried)
    while len(known) < min(len(tried) + wanted, size_of(space)):
        tuning = Tuning("optuna", len(known) + 1, space, sweep.seed, direction=direction)
        (setting,) = suggested(tuning, known)
        known.append(Trial(len(known), setting, "running"))
    return [trial.setting for trial in known[len(tried) :]]
