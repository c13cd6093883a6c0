"""A study as it is written down before it runs: the question, the arms, the seeds, and what will be compared.

Runs that arms start from, the foundations, are made before the runs that count, one for every seed, so that their
randomness counts too. Where arms are tuned, the seed of the trials has one as well; foundations themselves are not
tuned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headtohead.comparison.analyses.scaling_fits import AXES, Axis
from headtohead.comparison.contrasts import SeedRounds
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, show, unknown
from headtohead.config.schema.value_kinds import Either, Kind, ListOf, MappingOf, MismatchError, OneOf, TextKind
from headtohead.execution.run_spec import FROM_RUN
from headtohead.execution.tuning import Tuning
from headtohead.studies.definition.ablation import Ablation

BUDGETS = ("equal_parameters", "equal_flops", "equal_tokens", "equal_state", "equal_time", "equal_energy")
MEASURED_BUDGETS = ("equal_time", "equal_energy")
"""Those that hold for the machine on which they were measured."""
FLOOR = "neither_learned"
"""The expectation of a control, such as one of shuffled labels: undecided, since neither arm learned the task."""
VERDICTS = ("better", "worse", "equivalent", "undecided", FLOOR)
UNLIKE = ("tokenizer", "evaluation", "loss_normalisation", "budget")
"""Differences between arms that a study may allow."""
VARY = ("split",)
SPLIT_FIELD = "data.seed"
SET_BY_THE_STUDY = ("seed", "name", "group", "resume_from")


@dataclass(frozen=True)
class RequestedBudget:
    """A requested budget is what is equal in all arms."""

    name: str
    """One of conf/budget."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Fields of it with other values: tolerance, counted, rounds ..."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """Return the overrides as `h2h match` takes them."""
        return (f"budget={self.name}", *(f"budget.{key}={value}" for key, value in self.options.items()))


@dataclass(frozen=True)
class Study:
    """One YAML file of conf/study."""

    name: str
    """The name of its file, and of its folder in outputs/studies."""
    question: str
    """The question that heads its report."""
    hypothesis: str
    """The answer that is expected, and why, written down before any run."""
    tuning: str | Tuning
    """The amount of tuning that the numbers receive: in words, or done before the runs."""
    arms: Mapping[str, tuple[str, ...]]
    """The overrides that set each contestant apart, applied after those of the base."""
    seeds: tuple[int, ...]
    """The seeds of each arm: their number, or a list of them."""
    metric: str
    """The metric as records have it: test/loss."""
    direction: Literal["min", "max"]
    """Whether lower or higher values of the metric are better."""
    baseline: str
    """The arm that the others are compared with, and whose cost a budget makes equal."""
    first_seed: int = 0
    """The first of the seeds that are given by their number: another repeats a study on seeds of its own."""
    base: tuple[str, ...] = ()
    """The overrides of every run, before those of its arm."""
    contrasts: tuple[tuple[str, str], ...] = ()
    """Pairs (arm, what it is compared with); unless given, each arm with the baseline."""
    margin: float | None = None
    """Smaller differences do not matter: what lies within it may be called equivalent."""
    budget: RequestedBudget | None = None
    """Arms are brought to what the baseline costs."""
    movable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The ways in which an arm may move to meet the budget."""
    looks: tuple[int, ...] = ()
    """The numbers of seeds at which results are read; the error rate is spent over them."""
    shares: tuple[float, ...] = (1.0,)
    """Points on the budget axis, each a run of its own; verdicts rest on the whole."""
    lengths: tuple[int, ...] = ()
    """Multiples of the training length at which the test is taken too."""
    foundations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Runs that arms may start from, init_from=foundation:NAME: overrides, applied after those of the base."""
    ablation: Ablation | None = None
    """Makes arms beside those that are written out."""
    scaling: Scaling | None = None
    """Families of arms whose losses follow a law each."""
    allow_unlike: tuple[str, ...] = ()
    """Differences that do not stand in the way of a verdict."""
    expected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The verdicts and bounds that would be no surprise, by arm (against the baseline)."""
    seed_offsets: Mapping[str, int] = field(default_factory=dict)
    """Added to the seeds of an arm: makes A against A a comparison of different runs."""
    vary: tuple[str, ...] = ()
    """The things that each seed draws beside its first weights, order and dropout: split, the rows of all splits."""
    alpha: float = 0.05
    """The error rate of all verdicts of the study together; intervals hold 1 - alpha."""
    best: float | None = None
    """The best value there is: arms that reach it, or split into solved and unsolved, are compared by solve rates."""
    solved_at: float | None = None
    """The value from which on a run counts as solved: then arms are always compared by solve rates."""
    rounds: SeedRounds | None = None
    """The rule by which seeds are added until contrasts are decided; seeds are then all there may be."""
    departures: tuple[str, ...] = ()
    """The ways in which it is asked otherwise than its file says."""

    @property
    def budget_name(self) -> str | None:
        return None if self.budget is None else self.budget.name

    @property
    def is_paired(self) -> bool:
        """Return whether seed i is the same in every arm."""
        return not any(self.seed_offsets.values())

    @property
    def can_be_solved(self) -> bool:
        """Return whether arms may be compared by how many of their seeds solve the task: of scores, and of whatever has
        a best value."""
        return self.direction == "max" or self.best is not None or self.solved_at is not None

    @property
    def families(self) -> dict[str, tuple[str, ...]]:
        """The arms of each family that a scaling law is fitted to; empty where no law is requested."""
        if self.scaling is None:
            return {}
        families = self.scaling.families
        if not isinstance(families, str):
            return {family: tuple(arm for arm in arms if arm in self.arms) for family, arms in families.items()}
        assert self.ablation is not None, "a factor was named"
        design = self.ablation.design()
        return {
            level: tuple(arm for arm, levels in design.items() if levels[families] == level and arm in self.arms)
            for level in self.ablation.factors[families]
        }

    @property
    def stage_and_name(self) -> tuple[str, str]:
        stage, _, name = self.metric.partition("/")
        return stage, name


_PARTS: dict[str, Kind] = {
    "families": Either((MappingOf(ListOf(TextKind())), TextKind())),
    "axes": ListOf(OneOf(AXES)),
}


@dataclass(frozen=True)
class Scaling:
    """A scaling section says which laws are fitted."""

    families: str | Mapping[str, tuple[str, ...]]
    """A factor of the ablation, each level of it a family; or families by name, with their arms."""
    axes: tuple[Axis, ...] = AXES


@dataclass(frozen=True)
class ScalingField(Kind):
    """Every key known; what is wrong is reported with the key that holds it."""

    def read(self, value: Any) -> Scaling:
        if not isinstance(value, dict):
            raise self.refuse()
        for key in value:
            if key not in _PARTS:
                raise ConfigurationError(unknown(f"{key} is not a field of scaling", str(key), list(_PARTS)))
        if "families" not in value:
            raise ConfigurationError("scaling has no families: name a factor of the ablation, or {family: [arms]}")
        families = _read("families", value["families"])
        if isinstance(families, dict):
            families = {family: tuple(arms) for family, arms in families.items()}
        return Scaling(families, tuple(_read("axes", value.get("axes", AXES))))

    def wants(self) -> str:
        return f"a mapping of families and axes ({', '.join(AXES)})"


def _read(key: str, value: Any) -> Any:
    try:
        return _PARTS[key].read(value)
    except MismatchError as mismatch:
        raise ConfigurationError(f"scaling.{key}={show(value)} is refused: it must be {mismatch}") from None


FIELD, PREFIX = "init_from", "foundation:"


@dataclass(frozen=True)
class FoundationRun:
    """A run to start from: where it is, and what it is."""

    folder: Path
    id: str

    @property
    def override(self) -> str:
        return f"{FIELD}={FROM_RUN}{self.folder}"


def foundation_of(study: Study, arm: str) -> str | None:
    """The foundation that an arm starts from; None where it starts from nothing of the study."""
    starts = [override for override in (*study.base, *study.arms[arm]) if key_of(override) == FIELD]
    value = starts[-1].partition("=")[2] if starts else ""
    return value.removeprefix(PREFIX) if value.startswith(PREFIX) else None


def without_foundation(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides that can be composed while the foundation does not exist yet."""
    return tuple(override for override in overrides if not override.startswith(f"{FIELD}={PREFIX}"))


def used(study: Study) -> list[str]:
    """The foundations that arms start from, in the order of the study."""
    names = {foundation_of(study, arm) for arm in study.arms}
    return [name for name in study.foundations if name in names]


def foundation_faults(study: Study) -> Iterator[str]:
    names = {arm: name for arm in study.arms if (name := foundation_of(study, arm)) is not None}
    for arm, name in names.items():
        if name not in study.foundations:
            yield unknown(f"arm {arm} starts from {PREFIX}{name}, which is none", name, list(study.foundations))
    for name in study.foundations:
        if name not in names.values():
            yield f"no arm starts from foundation {name}: write {FIELD}={PREFIX}{name} among the overrides of one"
        if name in study.arms:
            yield f"{name} is an arm and a foundation: give it another name"
        if without_foundation(study.foundations[name]) != tuple(study.foundations[name]):
            yield f"foundation {name} starts from a foundation: only arms do, so leave out its {FIELD}={PREFIX}..."
