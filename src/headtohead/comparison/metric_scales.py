"""The scale that a metric's values lie on, the same for a study and for runs that are merely found: from what knowing
nothing gets to the best there is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.statistics.value_shapes import MetricScale
from headtohead.metrics import Direction, Metric
from headtohead.records.record import RunRecord


def metric_in(records: Iterable[RunRecord], name: str) -> Metric | None:
    """Return what the result of this name is, as the first record that knows it says."""
    return next((metric for record in records if (metric := record.metric(name)) is not None), None)


def chance_in(records: Iterable[RunRecord], stage: str, name: str) -> float | None:
    """Return the score of a model that learned nothing in that stage: the best that the record holds of chance and
    of what the train split's targets alone tell, the mean of it over runs. A run measures the latter at its end, so
    that one that is not finished counts only where none is."""
    runs = list(records)
    finished = [record for record in runs if record.status == "finished"]
    known = [chance for record in finished or runs if (chance := _chance(record, stage, name)) is not None]
    if len(set(known)) == 1:
        return known[0]  # a mean of equal numbers is another in its last digit
    return fmean(known) if known else None


def scale_in(
    records: Iterable[RunRecord], stage: str, name: str, *, direction: Direction, best: float | None = None
) -> MetricScale | None:
    """Return the scale; None where chance or best is unknown, they lie the other way round, or values are outside of
    what the metric can be, since another program counted otherwise. `best` is a study's, before the metric's."""
    runs = list(records)
    metric, chance = metric_in(runs, name), chance_in(runs, stage, name)
    top = best if best is not None or metric is None else metric.best
    if top is None or chance is None or not math.isfinite(chance) or top == chance:
        return None
    if (top > chance) != (direction == "max"):
        return None
    if metric is not None and not all(metric.low <= value <= metric.high for value in _values(runs, stage, name)):
        return None
    return MetricScale(chance, top)


def mixed_units(arms: Mapping[str, Sequence[RunRecord]], stage: str, name: str) -> list[str]:
    """Return a remark where some arms' values can be those of the metric and others' cannot, such as percentages beside
    shares; raise NotComparable where runs of ours are among them, whose unit is known."""
    metric = metric_in((record for runs in arms.values() for record in runs), name)
    if metric is None:
        return []
    values = {arm: own for arm, runs in arms.items() if (own := _values(runs, stage, name))}
    within = {arm for arm, own in values.items() if all(metric.low <= value <= metric.high for value in own)}
    beyond = sorted(values.keys() - within)
    if not within or not beyond:
        return []
    furthest = max((value for arm in beyond for value in values[arm]), key=lambda value: abs(value - metric.low))
    sentence = (
        f"{name} of {', '.join(beyond)} is up to {furthest:g} and that of {', '.join(sorted(within))} between "
        f"{metric.low:g} and {metric.high:g}"
    )
    if any(name in record.scales for arm in within for record in arms[arm]):
        raise NotComparable(f"{sentence}, as our runs measure it: bring both to one unit, such as 0.9 instead of 90 %")
    return [f"{sentence}: where one of them is in per cent and the other is not, the difference means nothing"]


def _values(records: Iterable[RunRecord], stage: str, name: str) -> list[float]:
    values = (record.metrics.get(stage, {}).get(name) for record in records)
    return [value for value in values if value is not None and math.isfinite(value)]


def _chance(record: RunRecord, stage: str, name: str) -> float | None:
    metric = record.metric(name)
    known = [record.baseline(stage, name), None if metric is None else metric.chance]
    values = [value for value in known if value is not None]
    if not values:
        return None
    return min(values) if metric is not None and metric.direction == "min" else max(values)
