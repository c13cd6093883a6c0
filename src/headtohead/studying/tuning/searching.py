"""What to try next, and what won: pure functions of a tuning and its trials, so that every worker plans the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from headtohead.comparing.trials import Setting, Trial
from headtohead.studying.tuning.space import drawn, on_grid
from headtohead.studying.tuning.tuning import Tuning


def proposals(tuning: Tuning, tried: Sequence[Trial]) -> list[Setting]:
    """Settings of the next trials, numbered on from those tried: 0, 1, 2 ..., all ended. None: the search is over.

    The tuning is one that `for_arm` completed.
    """
    assert tuning.space and tuning.direction, "for_arm says over which space, and what is better"
    assert [trial.number for trial in tried] == list(range(len(tried))), "trials are told without gaps"
    if tuning.search == "grid":
        return on_grid(tuning.space)[len(tried) : tuning.trials]
    if tuning.search == "random":
        return list(islice(drawn(tuning.space, tuning.seed), len(tried), tuning.trials))
    from headtohead.studying.tuning.tree_parzen import suggested

    return suggested(tuning, tried)


def winner(tuning: Tuning, tried: Sequence[Trial]) -> Trial | None:
    """The best on validation, of equals the first; whatever did not finish ranks below. None: nothing finished."""
    sign = -1.0 if tuning.larger_is_better else 1.0
    finished = [(sign * trial.value, trial.number, trial) for trial in tried if trial.value is not None]
    return min(finished, key=lambda entry: entry[:2])[2] if finished else None
