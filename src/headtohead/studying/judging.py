"""From the values of a study's runs to a verdict for each of its contrasts, under what was registered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headtohead.comparing.family import Family, family_of
from headtohead.comparing.scales import scale_in
from headtohead.comparing.solving import unit_under
from headtohead.comparing.statistics.shapes import Scale
from headtohead.comparing.verdict import Contrast, Registration, Times, Values, Verdict, verdicts_of
from headtohead.metrics import Metric
from headtohead.studying.expecting import surprise
from headtohead.studying.registering import Registered
from headtohead.studying.study import Study
from headtohead.tracking.record import RunRecord

Outcome = tuple[str, int, str, float | None]
"""Arm, seed, status and value of one run."""


def judged(
    study: Study,
    outcomes: Iterable[Outcome],
    written: Registered | None,
    asked: Registered,
    *,
    measured: Metric | None = None,
    scale: Scale | None = None,
    times: Times | None = None,
) -> list[Verdict]:
    """Contrasts that were registered are one family, whether or not all of them are still asked, those that were not
    another; in the order of the study."""
    values = _values(study, outcomes)
    apart = {pair: list(written.departures(asked, pair)) if written else None for pair in study.contrasts}
    ours = [pair for pair in study.contrasts if apart[pair] == []]
    others = [pair for pair in study.contrasts if pair not in ours]
    found: dict[tuple[str, str], Verdict] = {}
    dropped = len(set(written.contrasts) - set(ours)) if written else 0
    registered, explored = (_registration(study, *by, measured, scale) for by in ((written, dropped), (None, 0)))
    for pairs, design in ((ours, registered), (others, explored)):
        if pairs:
            contrasts = [Contrast(*pair, "; ".join(apart[pair] or ()) or None) for pair in pairs]
            verdicts = verdicts_of(values, contrasts, design, times)
            found |= zip(pairs, verdicts, strict=True)
    return [found[pair] for pair in study.contrasts]


def family_asked(study: Study) -> Family:
    """Return what the study's contrasts can show together."""
    return family_of(
        max(1, len(study.contrasts)),
        len(study.seeds),
        alpha=study.alpha,
        looks=study.looks,
        paired=not any(study.seed_offsets.values()),
    )


def surprises(study: Study, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A finding each."""
    for verdict in verdicts:
        expected = study.expected.get(verdict.arm) if verdict.baseline == study.baseline else None
        if expected and (told := surprise(verdict, expected)) is not None:
            yield told


def scale_of(study: Study, records: Iterable[RunRecord]) -> Scale | None:
    """From what a model that learned nothing gets to the best there is, of the study or of its metric."""
    return scale_in(records, *study.stage_and_name, direction=study.direction, best=study.best)


def _registration(
    study: Study, written: Registered | None, num_dropped: int, measured: Metric | None, scale: Scale | None
) -> Registration:
    return Registration(
        direction=study.direction,
        metric=study.metric,
        measured=measured,
        margin=study.margin,
        seeds=written.seeds if written else None,
        looks=written.looks if written else (),
        num_dropped=num_dropped,
        alpha=study.alpha,
        paired=not any(study.seed_offsets.values()),
        scale=scale,
        solved_at=study.solved_at,
        time_unit=unit_under(study.budget_name),
    )


def _values(study: Study, outcomes: Iterable[Outcome]) -> Values:
    """A run that diverged is a value of its own, None; one that could not be made has none."""
    values: dict[str, dict[int, float | None]] = {arm: {} for arm in study.arms}
    for arm, seed, status, value in outcomes:
        if status in ("finished", "diverged"):
            values[arm][seed] = value
    return values
