"""Values in per cent beside shares are reported, and refused where the unit of one side is known."""

from __future__ import annotations

import pytest

from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.metric_scales import mixed_units
from headtohead.metrics.labels import ACCURACY
from headtohead.metrics.metric import Metric
from headtohead.records.record import RunRecord

OURS = {"accuracy": ACCURACY}


def arm(*values: float, metric: str = "accuracy", scales: dict[str, Metric] | None = None) -> list[RunRecord]:
    """Return a run for each value."""
    return [
        RunRecord(id=str(seed), seed=seed, metrics={"test": {metric: value}}, scales=scales or {})
        for seed, value in enumerate(values)
    ]


def test_per_cent_beside_shares_is_refused_where_ours_are_shares() -> None:
    arms = {"theirs": arm(91.5, 92.0), "ours": arm(0.9, 0.95, scales=OURS)}
    with pytest.raises(NotComparable, match=r"of theirs is up to 92 and that of ours between 0 and 1.*one unit"):
        mixed_units(arms, "test", "accuracy")


def test_per_cent_beside_shares_of_others_is_reported() -> None:
    (remark,) = mixed_units({"a": arm(91.5, 92.0), "b": arm(0.9, 0.95)}, "test", "accuracy")
    assert remark.startswith("accuracy of a is up to 92 and that of b between 0 and 1")


@pytest.mark.parametrize(
    "arms",
    [
        {"a": arm(91.5, 92.0), "b": arm(90.0)},
        {"a": arm(0.5, 1.0), "b": arm(0.0)},
        {"a": arm(91.5, metric="elo"), "b": arm(0.5, metric="elo")},
        {"a": arm(), "b": arm(0.5)},
    ],
)
def test_one_unit_is_no_matter(arms: dict[str, list[RunRecord]]) -> None:
    (metric,) = {name for runs in arms.values() for run in runs for name in run.metrics["test"]}
    assert mixed_units(arms, "test", metric) == []
