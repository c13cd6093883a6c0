"""From how far the tuning of each arm has come to what is told of all of them."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.comparing.tuning import TuningDesign, TuningSummary, tuning_summary
from headtohead.studying.tuning.progress import Progress
from headtohead.studying.tuning.tuning import Tuning


def summary_of(tunings: Mapping[str, Progress]) -> TuningSummary | None:
    """By arm. None where nothing is tuned."""
    if not tunings:
        return None
    first = next(iter(tunings.values())).tuning
    tried = {arm: (progress.tuning.space, progress.tried) for arm, progress in tunings.items()}
    return tuning_summary(_design(first), tried)


def _design(tuning: Tuning) -> TuningDesign:
    """All but the space is that of every arm."""
    assert tuning.metric and tuning.direction, "for_arm says by what, and what is better"
    return TuningDesign(tuning.search, tuning.trials, tuning.metric, tuning.direction, tuning.seed, tuning.steps)
