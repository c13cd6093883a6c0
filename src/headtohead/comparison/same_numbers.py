"""Arms whose runs gave the same numbers to the last digit: what sets them apart had no effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headtohead.comparison.comparability import seed_of
from headtohead.records.record import RunRecord
from headtohead.records.run_summary import UNNAMED_STAGE

_LOSS = "loss"
"""The metric that two unlike runs never share: accuracies of unlike runs are often equal."""


def sentences_on_same_numbers(
    runs: Mapping[str, Sequence[RunRecord]], contrasts: Iterable[tuple[str, str]]
) -> list[str]:
    """Return a sentence for each contrast whose arms have every result in common, under every seed that both have."""
    numbers = {arm: {seed_of(run): run.metrics for run in own if run.status == "finished"} for arm, own in runs.items()}
    return [
        f"{arm} and {baseline} have the same results to the last digit under every seed: what sets them apart had no "
        "effect on any result"
        for arm, baseline in contrasts
        if _are_same(numbers.get(arm, {}), numbers.get(baseline, {}))
    ]


def _are_same(arm: Mapping[int, Mapping[str, Mapping[str, float]]], other: Mapping[int, object]) -> bool:
    shared = arm.keys() & other.keys()
    return bool(shared) and all(arm[seed] == other[seed] and _tells_runs_apart(arm[seed]) for seed in shared)


def _tells_runs_apart(results: Mapping[str, Mapping[str, float]]) -> bool:
    """Return whether results hold a loss above zero; those of other programs are a single number."""
    return any(stage.get(_LOSS, 0.0) > 0 for name, stage in results.items() if name != UNNAMED_STAGE)
