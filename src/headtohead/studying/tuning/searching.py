"""What to try next, and what won: pure functions of a tuning and its trials, so that every worker plans the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from headtohead.comparing.trials import Setting, Trial, best_of
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
    """The best on validation. None: nothing finished, and the arm keeps the settings that it came with."""
    return best_of(tried, larger_is_better=tuning.larger_is_better)
