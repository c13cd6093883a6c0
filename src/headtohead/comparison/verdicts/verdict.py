"""Is one arm better than another: better, worse, equivalent or undecided, by how much and how sure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from headtohead.comparison.contrasts import (
    Contrast,
    Kind,
    Registration,
    SeedEvidence,
    SeedStop,
    Times,
    Values,
    Verdict,
)
from headtohead.comparison.statistics.means import difference_interval
from headtohead.comparison.statistics.multiple_testing import Adjustment, adjusted, interim_levels
from headtohead.comparison.statistics.value_shapes import is_skewed
from headtohead.comparison.verdicts.agreeing_tests import ValueDistribution
from headtohead.comparison.verdicts.evidence import Outcomes, TestResult, evidence_of
from headtohead.comparison.verdicts.seed_evidence import seed_evidence_of
from headtohead.comparison.verdicts.seed_rounds import design_of
from headtohead.comparison.verdicts.verdict_text import sentence
from headtohead.errors import UsageError


def verdicts_of(
    values: Values, contrasts: Sequence[Contrast], registration: Registration, times: Times | None = None
) -> list[Verdict]:
    """Return the verdicts of a family; p-values of what was registered after Holm's correction, of what explores after
    Benjamini and Hochberg's, over all of it either way: what one arm lacks makes no other arm's verdict easier.

    Where every seed of both arms has solved the task, times decide.
    """
    num_contrasts = len(contrasts) + registration.num_dropped
    shape = ValueDistribution(
        registration.measured or registration.metric, is_skewed([_finite(arm.values()) for arm in values.values()])
    )
    family = _Family(registration, num_contrasts, shape)
    cases = [_case(values, contrast, family, times) for contrast in contrasts]
    dropped = [None] * registration.num_dropped
    p_values = _by_method([*(case.evidence.p for case in cases), *dropped])
    p_equivalent = _by_method([*(case.evidence.p_equivalent for case in cases), *dropped])
    verdicts = []
    for index, case in enumerate(cases):
        method: Adjustment = "benjamini_hochberg" if case.reasons else "holm"
        adjustment = method if num_contrasts > 1 else None
        verdicts.append(_verdict(case, family, p_values[method][index], p_equivalent[method][index], adjustment))
    return verdicts


def _by_method(p_values: Sequence[float | None]) -> dict[Adjustment, list[float | None]]:
    methods: tuple[Adjustment, ...] = get_args(Adjustment)
    return {method: adjusted(p_values, method) for method in methods}


@dataclass(frozen=True)
class _Family:
    registration: Registration
    num_contrasts: int
    shape: ValueDistribution


@dataclass(frozen=True)
class _Case:
    contrast: Contrast
    evidence: TestResult
    seeds: tuple[int, ...]
    num_seeds: tuple[int, int]
    level: float
    reasons: tuple[str, ...]
    failures: dict[str, int]
    stop: SeedStop | None


def _case(values: Values, contrast: Contrast, family: _Family, times: Times | None) -> _Case:
    registration = family.registration
    names = (contrast.arm, contrast.baseline)
    stop = registration.stops.get(names)
    due = None if stop is None else _seeds_due(values, registration, stop)
    first, second = (_outcomes(values, name, due) for name in names)
    shared = tuple(sorted(first.keys() & second.keys()))
    if registration.paired:
        first, second = ({seed: arm[seed] for seed in shared} for arm in (first, second))
    seeds = shared if registration.paired else tuple(sorted(first.keys() | second.keys()))
    level = level_of(registration, len(seeds), family.num_contrasts)
    question = replace(
        design_of(registration, names, family.num_contrasts), level=level or registration.alpha, shape=family.shape
    )

    def timed(at: float) -> tuple[Outcomes, Outcomes]:
        known = {} if times is None else times(at)
        if not all(name in known for name in names):
            return {}, {}
        one, other = (
            {seed: known[name].get(seed) for seed in arm} for name, arm in zip(names, (first, second), strict=True)
        )
        return one, other

    by_rounds = registration.rounds is not None
    result = seed_evidence_of(first, second, question) if by_rounds else evidence_of(first, second, question, timed)
    measured = registration.measured or registration.metric
    interval = difference_interval(result.interval, measured, [*first.values(), *second.values()])
    return _Case(
        contrast,
        replace(result, interval=interval),
        seeds,
        (len(first), len(second)),
        question.level,
        tuple(departures(seeds, registration, level, stop) if contrast.departure is None else (contrast.departure,)),
        {name: sum(value is None for value in arm.values()) for name, arm in zip(names, (first, second), strict=True)},
        stop,
    )


def _seeds_due(values: Values, registration: Registration, stop: SeedStop) -> set[int]:
    """Return the seeds with which a contrast stopped; its arms may have got more for other contrasts."""
    known = registration.seeds or {seed for outcomes in values.values() for seed in outcomes}
    return set(sorted(known)[: stop.num_seeds])


def _outcomes(values: Values, name: str, due: Collection[int] | None) -> dict[int, float | None]:
    """Return an arm's outcomes by seed; of some seeds only where they are given."""
    if name not in values:
        raise UsageError(f"the contrast names {name}, which has no results: choose among {', '.join(sorted(values))}")
    own = {seed: value for seed, value in values[name].items() if due is None or seed in due}
    return {seed: value if value is not None and math.isfinite(value) else None for seed, value in own.items()}


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _verdict(
    case: _Case,
    family: _Family,
    p: float | None,
    p_equivalent: float | None,
    adjustment: Adjustment | None,
) -> Verdict:
    result, registration = case.evidence, family.registration
    kind = _kind(result, p, p_equivalent, case.level)
    verdict = Verdict(
        arm=case.contrast.arm,
        baseline=case.contrast.baseline,
        metric=registration.metric,
        kind=kind,
        method=result.method,
        because=result.because,
        difference=result.difference,
        interval=result.interval,
        p=result.p,
        p_exact=result.p_exact,
        p_adjusted=p,
        adjustment=adjustment,
        p_equivalent=p_equivalent,
        level=case.level,
        num_contrasts=family.num_contrasts,
        margin=registration.margin,
        withheld=result.withheld,
        detectable_effect=result.detectable,
        seeds=case.seeds,
        num_seeds=case.num_seeds,
        seeds_needed=result.seeds_needed,
        seeds_range=result.seeds_range,
        exploratory=bool(case.reasons),
        reasons=case.reasons,
        failures=case.failures,
        neither_learned=result.neither_learned,
        chance=None if registration.scale is None else registration.scale.chance,
        solved=result.solved,
        of=result.of,
        time_unit=registration.time_unit,
        seed_evidence=_seed_evidence(case, family, kind),
    )
    return replace(verdict, sentence=sentence(verdict))


def _seed_evidence(case: _Case, family: _Family, kind: Kind) -> SeedEvidence | None:
    """Evidence that was enough and shows nothing, since neither arm learned the task, is not helped by more seeds."""
    rounds, stop = family.registration.rounds, case.stop
    if rounds is None or stop is None:
        return None
    if kind == "undecided" and stop.reason == "decided":
        stop = replace(stop, reason="futile")
    threshold = math.log10(family.num_contrasts / case.level)
    return SeedEvidence(rounds, stop, threshold, dict(case.evidence.curves))


def _kind(result: TestResult, p: float | None, p_equivalent: float | None, level: float) -> Kind:
    """A difference that is sure and yet smaller than the margin is equivalent: the margin says what matters."""
    if result.neither_learned or result.withheld:
        return "undecided"
    if p_equivalent is not None and p_equivalent < level:
        return "equivalent"
    if p is None or p >= level or not result.lead:
        return "undecided"
    return "better" if result.lead > 0 else "worse"


def level_of(registration: Registration, num_seeds: int, num_contrasts: int) -> float | None:
    """Return the level of this look, for a family of so many; None where it was not registered."""
    if not registration.interim_analyses:
        return registration.alpha
    if num_seeds not in registration.interim_analyses:
        return None
    spent = interim_levels(registration.interim_analyses, alpha=registration.alpha, num_contrasts=num_contrasts)
    return spent[list(registration.interim_analyses).index(num_seeds)]


def departures(
    seeds: Collection[int], registration: Registration, level: float | None, stop: SeedStop | None = None
) -> Iterator[str]:
    """Yield why seeds are not those that were registered."""
    if registration.seeds is None:
        yield "no seeds were registered"
        return
    planned = sorted(registration.seeds)[: _num_due(len(seeds), registration, stop)]
    added = sorted(set(seeds) - set(registration.seeds))
    missing = sorted(set(planned) - set(seeds))
    if added:
        yield f"seeds added after registration: {_listed(added)}"
    if level is None:
        yield f"a look at {len(seeds)} seeds was not registered"
    elif missing:
        yield f"registered seeds missing: {_listed(missing)}"


def _num_due(number: int, registration: Registration, stop: SeedStop | None) -> int | None:
    """Return how many of the registered seeds a verdict on so many needs; None for all of them."""
    if stop is not None and stop.reason != "open":
        return stop.num_seeds
    return number if registration.interim_analyses or registration.rounds else None


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
