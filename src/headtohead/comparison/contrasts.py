"""The contrast of two arms: how it is requested, what was registered of it, and the verdict that answers it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from headtohead.comparison.statistics.multiple_testing import Adjustment
from headtohead.comparison.statistics.value_shapes import MetricScale
from headtohead.comparison.verdicts.evidence import Method, Outcomes
from headtohead.metrics import Direction, Metric

ALPHA = 0.05
"""The usual error rate, where nobody registered another."""
NEITHER_LEARNED = "neither learned the task"
TOO_FEW_SEEDS = "too few seeds for this shape"
Kind = Literal["better", "worse", "equivalent", "undecided"]
Values = Mapping[str, Outcomes]
"""The values by arm and seed; None is a run that diverged. A run that was not made has no entry."""
Times = Callable[[float], Values]
"""A function from the value at which a seed counts as solved to the time until then, None for never; it has the arms
whose runs tell."""
TimeUnit = Literal["steps", "FLOPs", "seconds"]


StopReason = Literal["decided", "futile", "all seeds", "open"]
"""The reason why a contrast gets no more seeds; open: it may get more."""


@dataclass(frozen=True)
class SeedRounds:
    """Seeds are added one by one until every contrast is decided."""

    start: int
    """The seeds that every arm gets."""
    most: int


@dataclass(frozen=True)
class SeedStop:
    """The number of seeds at which one contrast stopped."""

    num_seeds: int
    reason: StopReason


@dataclass(frozen=True)
class SeedEvidence:
    """The evidence of one contrast after each of its seeds."""

    rounds: SeedRounds
    stop: SeedStop
    threshold: float
    """The evidence from which on it is sure to decide, whatever the rest of the family says: a logarithm to the base
    10."""
    curves: dict[str, tuple[float, ...]]
    """The evidence by the name of the e-process; logarithms to the base 10."""


@dataclass(frozen=True)
class Contrast:
    """One question of a study: the arm against the baseline."""

    arm: str
    baseline: str
    departure: str | None = None
    """The reason why it is not the question that was registered."""


@dataclass(frozen=True)
class Registration:
    """A registration is the design that was saved before the first run."""

    direction: Literal["min", "max"]
    metric: str = "the metric"
    """The metric in words."""
    measured: Metric | None = None
    """The metric's definition, where records give it; otherwise the words tell."""
    margin: float | None = None
    """The smallest difference that matters; without it nothing is called equivalent."""
    seeds: Collection[int] | None = None
    """The registered seeds; None means that nothing was registered, so that every verdict is exploratory."""
    interim_analyses: Sequence[int] = ()
    """The numbers of seeds at which results are read, the last one all of them; empty: once, at the end."""
    rounds: SeedRounds | None = None
    """The rule by which seeds are added until contrasts are decided; None means that their number was fixed, or interim
    analyses were."""
    stops: Mapping[tuple[str, str], SeedStop] = field(default_factory=dict)
    """The stop of each contrast, where seeds come in rounds."""
    alpha: float = ALPHA
    paired: bool = True
    """Seed i means the same data in every arm."""
    scale: MetricScale | None = None
    """Finds arms that saturate or split into two groups."""
    num_dropped: int = 0
    """Contrasts of the family that are asked no more, and count in it as if they were."""
    solved_at: float | None = None
    """The value from which on a seed counts as solved: then rates are compared, not means."""
    time_unit: TimeUnit = "steps"
    """The time unit of times to solve."""


@dataclass(frozen=True)
class ComparisonSpec:
    """A comparison spec says how existing runs are to be compared."""

    against: str
    """The baseline, an arm."""
    metric: str | None = None
    """accuracy, or with its stage validation/loss; None: what the runs report first."""
    direction: Direction | None = None
    """The direction; None means as the runs were selected, or as the metric's name tells."""
    margin: float | None = None
    allowed: Collection[str] = ()
    """The conditions that may be unlike, by the names in comparability.ALIKE."""
    budget: str | None = None
    """equal_flops: refuse arms whose FLOPs differ."""
    solved_at: float | None = None
    """The value from which on a run counts as solved: then solve rates are compared, and times where all solve it."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one contrast. Differences are arm minus baseline."""

    arm: str
    baseline: str
    metric: str
    kind: Kind
    method: Method
    because: str | None
    """The reason why the method is not a t-test."""
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None
    """The larger of both, where an exact test stands beside the t-test."""
    p_exact: float | None
    """The p-value of that exact test."""
    p_adjusted: float | None
    """The p-value adjusted for the family of contrasts."""
    adjustment: Adjustment | None
    """Return None for a contrast that stands alone."""
    p_equivalent: float | None
    """The p-value of the two one-sided tests, adjusted likewise."""
    level: float
    """The level that p_adjusted has to stay below, at this interim analysis."""
    num_contrasts: int
    """The number of contrasts of the family; those that are not tested any more are among them."""
    margin: float | None
    withheld: str | None
    """The reason why there are too few seeds for this shape, whatever the tests say."""
    detectable_effect: float | None
    """The smallest difference found in 80 % of studies of this many seeds and as large a family."""
    seeds: tuple[int, ...]
    """The seeds of both arms; of either, if they are unpaired."""
    num_seeds: tuple[int, int]
    """The number of seeds of the arm and of the baseline."""
    seeds_needed: int | None
    """The fewest with which an exact test can decide at all, where it is needed."""
    seeds_range: tuple[int | None, int | None] | None
    """The fewest and the most that a new registration may need, as far as so few seeds tell; None is over 1000."""
    exploratory: bool
    reasons: tuple[str, ...]
    """The reasons why it is exploratory."""
    failures: dict[str, int]
    """Diverged runs of either arm."""
    neither_learned: bool
    """Both arms are near chance, so that nothing was shown."""
    chance: float | None
    """The score of a model that learned nothing, where it is known."""
    solved: tuple[int, int] | None
    of: tuple[int, int] | None
    """Seeds of arm and baseline that solved the task, and all of them, where rates or times to solve decide."""
    kernels: dict[str, tuple[str, ...]] | None = None
    """The kernels that computed the mixers of either arm; shown where time or energy was held equal."""
    held_equal: str = "time"
    """Time or energy, where there are kernels."""
    time_unit: TimeUnit = "steps"
    """The unit of the difference, where times to solve decide."""
    num_rows: int | None = None
    """The number of rows of the test set that all seeds share, where runs saved the scores of its rows."""
    row_interval: tuple[float, float] | None = None
    """The interval of the difference over other rows: a paired bootstrap, at the level of the verdict."""
    row_refusal: str | None = None
    """The reason why rows give no interval."""
    seed_evidence: SeedEvidence | None = None
    """The e-processes of a study that adds seeds until it is decided."""
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
        """Return the bound that is sufficient for p whatever the rest of the family says: Holm's first step."""
        return self.level / self.num_contrasts

    @property
    def implementation_bound(self) -> tuple[str, ...]:
        """Arms, of equal time, that a fused kernel would have helped."""
        return tuple(arm for arm, kernels in (self.kernels or {}).items() if "torch" in kernels)

    def as_data(self) -> dict[str, Any]:
        """Return the fields as data for JSON."""
        also = {"answer": self.answer, "family_level": self.family_level}
        return {**asdict(self), **also, "implementation_bound": list(self.implementation_bound)}
