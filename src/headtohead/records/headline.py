"""The one result that stands for a run in lists and tables: its split, its metric and its value."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.metrics import own_metric
from headtohead.metrics.language_modelling import LOSS
from headtohead.records.record import RunRecord

GIVEN = "given"
"""The results of another program, which does not say on which split."""
STAGES = ("test", "validation", GIVEN)
"""Which results count first."""


def headline_of(record: RunRecord, metric: str | None = None) -> tuple[str | None, str | None, float | None]:
    """Return stage, metric and value; `metric` as in "accuracy" or "validation/loss", else what the record was selected
    by, or its accuracy or loss."""
    stage, _, name = (metric or "").partition("/")
    if name and stage in record.metrics:
        return stage, name, record.metrics[stage].get(name)
    for stage in STAGES:
        results = record.metrics.get(stage, {})
        name = metric or _preferred(record, results)
        if name in results:
            return stage, name, results[name]
    return None, None, None


def _preferred(record: RunRecord, results: Mapping[str, float]) -> str:
    if len(results) == 1:
        return next(iter(results))
    selected = record.selection.metric
    known = ((own.headline, name) for name in results if (own := own_metric(name)) is not None)
    ranked = sorted((rank, name) for rank, name in known if rank is not None)
    return ranked[0][1] if selected == LOSS.name and ranked else selected
