"""Is one arm better than another: better, worse, equivalent or undecided, by how much and how sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from headtohead.comparing.departures import departures, level_of
from headtohead.comparing.evidence import Evidence, Method, Outcomes, Question, evidence_of
from headtohead.comparing.intervals import difference_interval
from headtohead.comparing.shape_guard import Shape
from headtohead.comparing.statistics.adjusting import Adjustment, adjusted
from headtohead.comparing.statistics.shapes import Scale
from headtohead.comparing.statistics.skew import is_skewed
from headtohead.comparing.wording import NEITHER_LEARNED, TOO_FEW_SEEDS, sentence
from headtohead.errors import UsageError
from headtohead.metrics import Metric

Kind = Literal["better", "worse", "equivalent", "undecided"]
Values = Mapping[str, Outcomes]
"""By arm and seed; None is a run that diverged. A run that was not made has no entry."""
Times = Callable[[float], Values]
"""From the value at which a seed counts as solved to the time until then, None for never; of arms whose runs tell."""
TimeUnit = Literal["steps", "FLOPs", "seconds"]


@dataclass(frozen=True)
class Contrast:
    """One question of a study: the arm against the baseline."""

    arm: str
    baseline: str
    departure: str | None = None
    """Why it is not the question that was registered."""


@dataclass(frozen=True)
class Registration:
    """What was written down before the first run."""

    direction: Literal["min", "max"]
    metric: str = "the metric"
    """In words."""
    measured: Metric | None = None
    """What it is, where records say it; else the words tell."""
    margin: float | None = None
    """The smallest difference that matters; without it nothing is called equivalent."""
    seeds: Collection[int] | None = None
    """None: nothing was registered, and every verdict is exploratory."""
    looks: Sequence[int] = ()
    """The numbers of seeds at which results are read, the last one all of them; empty: once, at the end."""
    alpha: float = 0.05
    paired: bool = True
    """Seed i means the same data in every arm."""
    scale: Scale | None = None
    """Finds arms that saturate or split into two groups."""
    num_dropped: int = 0
    """Contrasts of the family that are asked no more, and count in it as if they were."""
    solved_at: float | None = None
    """The value from which on a seed counts as solved: then rates are compared, not means."""
    time_unit: TimeUnit = "steps"
    """Of times to solve."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one contrast. Differences are arm minus baseline."""

    arm: str
    baseline: str
    metric: str
    kind: Kind
    method: Method
    because: str | None
    """Why the method is no t-test."""
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None
    """The larger of both, where an exact test stands beside the t-test."""
    p_exact: float | None
    """Of that exact test."""
    p_adjusted: float | None
    """For the family of contrasts."""
    adjustment: Adjustment | None
    """None for a contrast that stands alone."""
    p_equivalent: float | None
    """Of the two one-sided tests, adjusted likewise."""
    level: float
    """What p_adjusted has to stay below, at this look."""
    num_contrasts: int
    """Of the family; those that are asked no more are among them."""
    margin: float | None
    withheld: str | None
    """Why there are too few seeds for this shape, whatever the tests say."""
    detectable_effect: float | None
    """The smallest difference found in 80 % of studies of this many seeds and as large a family."""
    seeds: tuple[int, ...]
    """Of both arms; unpaired, of either."""
    num_seeds: tuple[int, int]
    """Of arm and baseline."""
    seeds_needed: int | None
    """The fewest with which an exact test can decide at all, where it is needed."""
    seeds_range: tuple[int | None, int | None] | None
    """The fewest and the most that a new registration may need, as far as so few seeds tell; None is over 1000."""
    exploratory: bool
    reasons: tuple[str, ...]
    """Why it is exploratory."""
    failures: dict[str, int]
    """Diverged runs of either arm."""
    neither_learned: bool
    """Both arms are near chance, so that nothing was shown."""
    chance: float | None
    """What a model that learned nothing gets, where it is known."""
    solved: tuple[int, int] | None
    of: tuple[int, int] | None
    """Seeds of arm and baseline that solved the task, and all of them, where rates or times to solve decide."""
    kernels: dict[str, tuple[str, ...]] | None = None
    """What computed the mixers of either arm; told where time was held equal."""
    time_unit: TimeUnit = "steps"
    """Of the difference, where times to solve decide."""
    num_rows: int | None = None
    """Of the test set that all seeds share, where runs kept the scores of its rows."""
    row_interval: tuple[float, float] | None = None
    """Of the difference over other rows: a paired bootstrap, at the level of the verdict."""
    row_refusal: str | None = None
    """Why rows give no interval."""
    sentence: str = ""

    @property
    def answer(self) -> str:
        """Return the kind, and why nothing was shown where that is known."""
        return f"{self.kind}: {self.why}" if self.why else self.kind

    @property
    def why(self) -> str:
        """Return why nothing was shown, where that is known."""
        if self.neither_learned:
            return NEITHER_LEARNED
        return TOO_FEW_SEEDS if self.withheld else ""

    @property
    def family_level(self) -> float:
        """What p by itself has to stay below, whatever the rest of the family says: Holm's first step."""
        return self.level / self.num_contrasts

    @property
    def implementation_bound(self) -> tuple[str, ...]:
        """Arms, of equal time, that a fused kernel would have helped."""
        return tuple(arm for arm, kernels in (self.kernels or {}).items() if "torch" in kernels)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        also = {"answer": self.answer, "family_level": self.family_level}
        return {**asdict(self), **also, "implementation_bound": list(self.implementation_bound)}


def verdict_of(
    values: Values,
    contrast: Contrast,
    direction: Literal["min", "max"],
    margin: float | None = None,
    registered_seeds: Collection[int] | None = None,
    alpha: float = 0.05,
) -> Verdict:
    """The verdict of a contrast that stands alone."""
    registration = Registration(direction, margin=margin, seeds=registered_seeds, alpha=alpha)
    return verdicts_of(values, [contrast], registration)[0]


def verdicts_of(
    values: Values, contrasts: Sequence[Contrast], registration: Registration, times: Times | None = None
) -> list[Verdict]:
    """The verdicts of a family; p-values of what was registered after Holm, of what explores after Benjamini and
    Hochberg, over all of it either way: what one arm lacks makes no other arm's verdict easier.

    Where every seed of both arms has solved the task, times decide.
    """
    num_contrasts = len(contrasts) + registration.num_dropped
    shape = Shape(
        registration.measured or registration.metric, is_skewed([_finite(arm.values()) for arm in values.values()])
    )
    family = _Family(registration, num_contrasts, shape)
    cases = [_case(values, contrast, family, times) for contrast in contrasts]
    dropped = [None] * registration.num_dropped
    p_values = _by_method([*(case.evidence.p for case in cases), *dropped])
    p_equivalent = _by_method([*(case.evidence.p_equivalent for case in cases), *dropped])
    verdicts = []
    for place, case in enumerate(cases):
        method: Adjustment = "benjamini_hochberg" if case.reasons else "holm"
        told = method if num_contrasts > 1 else None
        verdicts.append(_verdict(case, family, p_values[method][place], p_equivalent[method][place], told))
    return verdicts


def _by_method(p_values: Sequence[float | None]) -> dict[Adjustment, list[float | None]]:
    methods: tuple[Adjustment, ...] = get_args(Adjustment)
    return {method: adjusted(p_values, method) for method in methods}


@dataclass(frozen=True)
class _Family:
    registration: Registration
    num_contrasts: int
    shape: Shape


@dataclass(frozen=True)
class _Case:
    contrast: Contrast
    evidence: Evidence
    seeds: tuple[int, ...]
    num_seeds: tuple[int, int]
    level: float
    reasons: tuple[str, ...]
    failures: dict[str, int]


def _case(values: Values, contrast: Contrast, family: _Family, times: Times | None) -> _Case:
    registration = family.registration
    names = (contrast.arm, contrast.baseline)
    first, second = (_outcomes(values, name) for name in names)
    shared = tuple(sorted(first.keys() & second.keys()))
    if registration.paired:
        first, second = ({seed: arm[seed] for seed in shared} for arm in (first, second))
    seeds = shared if registration.paired else tuple(sorted(first.keys() | second.keys()))
    level = level_of(registration, len(seeds), family.num_contrasts)
    question = Question(
        larger_is_better=registration.direction == "max",
        level=level or registration.alpha,
        margin=registration.margin,
        paired=registration.paired,
        scale=registration.scale,
        solved_at=registration.solved_at,
        names=names,
        num_contrasts=family.num_contrasts,
        alpha=registration.alpha,
        shape=family.shape,
    )

    def timed(at: float) -> tuple[Outcomes, Outcomes]:
        known = {} if times is None else times(at)
        if not all(name in known for name in names):
            return {}, {}
        one, other = (
            {seed: known[name].get(seed) for seed in arm} for name, arm in zip(names, (first, second), strict=True)
        )
        return one, other

    found = evidence_of(first, second, question, timed)
    measured = registration.measured or registration.metric
    shown = difference_interval(found.interval, measured, [*first.values(), *second.values()])
    return _Case(
        contrast,
        replace(found, interval=shown),
        seeds,
        (len(first), len(second)),
        question.level,
        tuple(departures(seeds, registration, level) if contrast.departure is None else (contrast.departure,)),
        {name: sum(value is None for value in arm.values()) for name, arm in zip(names, (first, second), strict=True)},
    )


def _outcomes(values: Values, name: str) -> dict[int, float | None]:
    if name not in values:
        raise UsageError(f"the contrast names {name}, which has no values: choose among {', '.join(sorted(values))}")
    return {seed: value if value is not None and math.isfinite(value) else None for seed, value in values[name].items()}


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _verdict(
    case: _Case,
    family: _Family,
    p: float | None,
    p_equivalent: float | None,
    adjustment: Adjustment | None,
) -> Verdict:
    found, registration = case.evidence, family.registration
    verdict = Verdict(
        arm=case.contrast.arm,
        baseline=case.contrast.baseline,
        metric=registration.metric,
        kind=_kind(found, p, p_equivalent, case.level),
        method=found.method,
        because=found.because,
        difference=found.difference,
        interval=found.interval,
        p=found.p,
        p_exact=found.p_exact,
        p_adjusted=p,
        adjustment=adjustment,
        p_equivalent=p_equivalent,
        level=case.level,
        num_contrasts=family.num_contrasts,
        margin=registration.margin,
        withheld=found.withheld,
        detectable_effect=found.detectable,
        seeds=case.seeds,
        num_seeds=case.num_seeds,
        seeds_needed=found.seeds_needed,
        seeds_range=found.seeds_range,
        exploratory=bool(case.reasons),
        reasons=case.reasons,
        failures=case.failures,
        neither_learned=found.neither_learned,
        chance=None if registration.scale is None else registration.scale.chance,
        solved=found.solved,
        of=found.of,
        time_unit=registration.time_unit,
    )
    return replace(verdict, sentence=sentence(verdict))


def _kind(found: Evidence, p: float | None, p_equivalent: float | None, level: float) -> Kind:
    """A difference that is sure and yet smaller than the margin is equivalent: the margin says what matters."""
    if found.neither_learned or found.withheld:
        return "undecided"
    if p_equivalent is not None and p_equivalent < level:
        return "equivalent"
    if p is None or p >= level or not found.lead:
        return "undecided"
    return "better" if found.lead > 0 else "worse"
