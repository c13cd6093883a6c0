"""Define what each field of a study's YAML may hold, and find what is wrong with a study whose fields all have the
right type, with a sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from headtohead.comparison.analyses.scaling_fits import AXES
from headtohead.comparison.contrasts import SeedRounds, Verdict
from headtohead.comparison.verdicts.seed_rounds import fewest_seeds
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import one_of, show, unknown
from headtohead.config.schema.value_kinds import (
    AnyKind,
    Either,
    FieldsOf,
    Kind,
    ListOf,
    MappingOf,
    MismatchError,
    NullKind,
    OneOf,
    TextKind,
    WholeNumber,
    by_name,
)  # fmt: skip
from headtohead.execution.tuning import Tuning, misfits
from headtohead.records.metrics_file import multiple_of
from headtohead.studies.definition.ablation import AblationField
from headtohead.studies.definition.study import (
    BUDGETS,
    FLOOR,
    SET_BY_THE_STUDY,
    SPLIT_FIELD,
    UNLIKE,
    VARY,
    VERDICTS,
    RequestedBudget,
    ScalingField,
    Study,
    foundation_faults,
)
from headtohead.studies.definition.tuning_field import TUNING, NumberField

_OVERRIDES = ListOf(TextKind())


@dataclass(frozen=True)
class BudgetField(Kind):
    """A name, or a name with options."""

    def read(self, value: Any) -> RequestedBudget:
        if isinstance(value, dict) and len(value) == 1:
            name, options = next(iter(value.items()))
            return RequestedBudget(OneOf(BUDGETS).read(name), MappingOf(AnyKind()).read(options))
        return RequestedBudget(OneOf(BUDGETS).read(value))

    def wants(self) -> str:
        return f"{OneOf(BUDGETS).wants()}, or one with its options, {{equal_parameters: {{tolerance: 0.01}}}}"


@dataclass(frozen=True)
class RoundsField(FieldsOf):
    """Seeds that are added until it is decided."""

    def read(self, value: Any) -> Any:
        arms = super().read(value)
        return SeedRounds(arms["start"], arms["most"])

    def wants(self) -> str:
        return "a mapping {start: 3, most: 20, until: decided}"


ROUNDS = RoundsField({"start": WholeNumber(), "most": WholeNumber(), "until": OneOf(("decided",))})


@dataclass(frozen=True)
class ByArm(Kind):
    """A mapping whose keys are names: YAML reads 16 as a number, and on as true."""

    item: Kind

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MismatchError(MappingOf(self.item).wants())
        for name in value:
            if isinstance(name, bool) or not isinstance(name, str | int | float):
                raise MismatchError("a mapping from names of arms: quote names such as 'on' and 'no'")
        return MappingOf(self.item).read(by_name((str(name), entry) for name, entry in value.items()))

    def wants(self) -> str:
        return MappingOf(self.item).wants()


_BOUND = re.compile(r"difference ([<>]) (-?\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class ExpectationKind(Kind):
    """One entry of a list: one of its verdicts comes out, and all of its bounds hold."""

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not (value in VERDICTS or _BOUND.fullmatch(value)):
            raise self.refuse()
        return value

    def wants(self) -> str:
        return f"{OneOf(VERDICTS).wants()}, or a bound such as difference < 0.1"


def unexpected(verdict: Verdict, expected: Sequence[str]) -> str | None:
    """A sentence where it is not as expected."""
    kinds = [entry for entry in expected if entry in VERDICTS]
    bounds = [entry for entry in expected if entry not in VERDICTS]
    is_expected = verdict.kind in kinds or (verdict.neither_learned and FLOOR in kinds)
    if (not kinds or is_expected) and all(_holds(bound, verdict.difference) for bound in bounds):
        return None
    expectations = [*([f"to be {' or '.join(kinds)}"] if kinds else []), *(f"to have a {bound}" for bound in bounds)]
    size = (
        "" if not bounds else " without a difference" if verdict.difference is None else f" by {verdict.difference:.3g}"
    )
    return f"not as expected: {verdict.arm} was expected {' and '.join(expectations)}, and is {verdict.answer}{size}"


def _holds(bound: str, difference: float | None) -> bool:
    match = _BOUND.fullmatch(bound)
    assert match is not None, "bounds are read before they are asked"
    if difference is None:
        return False
    return difference < float(match[2]) if match[1] == "<" else difference > float(match[2])


KINDS: dict[str, Kind] = {
    "question": TextKind(),
    "hypothesis": TextKind(),
    "tuning": TUNING,
    "arms": ByArm(_OVERRIDES),
    "seeds": Either((WholeNumber(), ListOf(WholeNumber()), ROUNDS)),
    "first_seed": WholeNumber(),
    "metric": TextKind(),
    "direction": OneOf(("min", "max")),
    "baseline": TextKind(),
    "base": _OVERRIDES,
    "contrasts": ListOf(ListOf(TextKind(), (TextKind(), TextKind()))),
    "margin": Either((NumberField(), NullKind())),
    "budget": Either((BudgetField(), NullKind())),
    "movable": ByArm(ListOf(TextKind())),
    "looks": ListOf(WholeNumber()),
    "shares": ListOf(NumberField()),
    "lengths": ListOf(WholeNumber()),
    "foundations": MappingOf(_OVERRIDES),
    "ablation": Either((AblationField(), NullKind())),
    "scaling": Either((ScalingField(), NullKind())),
    "allow_unlike": ListOf(OneOf(UNLIKE)),
    "expected": ByArm(ListOf(ExpectationKind())),
    "seed_offsets": ByArm(WholeNumber()),
    "vary": ListOf(OneOf(VARY)),
    "alpha": NumberField(),
    "best": Either((NumberField(), NullKind())),
    "solved_at": Either((NumberField(), NullKind())),
}
FIELDS = tuple(KINDS)

assert {field.name for field in fields(Study)} == {"name", "rounds", "departures", *KINDS}


INSTEAD = "remove it (seeds=5 gives five seeds, seeds=[0,1] those two)"
_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)
_NO_NAME = "new"
_MOST_ROUNDS = 100
"""Each is a look at all of the family."""
_LENGTHS = "evaluation.lengths"


def faults(study: Study) -> Iterator[str]:
    """Return None where the study can be planned."""
    arms = list(study.arms)
    if len(arms) < 2:
        yield f"arms={show(arms)} is not a comparison: give two or more"
    if study.name == _NO_NAME:
        yield f"{_NO_NAME} is not a name of a study, since `h2h study {_NO_NAME}` writes one: choose another"
    for arm in arms:
        if not _NAME.fullmatch(arm):
            yield f"an arm is named {arm!r}: use letters from a to z, digits, dots, dashes, plus signs and underscores"
    stage, metric = study.stage_and_name
    multiple = multiple_of(stage)
    if (multiple is None and stage != "validation") or not metric:
        yield f"metric={study.metric} is refused: write test/NAME or validation/NAME, for example test/loss"
    if multiple and multiple > 1 and multiple not in study.lengths and _LENGTHS not in map(key_of, study.base):
        yield f"metric={study.metric} is not measured: add {multiple} to lengths={show(study.lengths)}"
    if not 0 < study.alpha < 1:
        yield f"alpha={study.alpha:g} is refused: it is an error rate, such as 0.05"
    if study.margin is not None and study.margin <= 0:
        yield f"margin={study.margin:g} is refused: give a positive difference, or null"
    if isinstance(study.tuning, Tuning):
        offsets = study.seed_offsets.values()
        yield from misfits(study.tuning, seeds=study.seeds, offsets=offsets, metric=study.metric)
    yield from _axes(study)
    yield from _unknown_arms(study)
    yield from _scaling(study)
    yield from foundation_faults(study)
    yield from _taken_fields(study)
    yield from _split_given(study)


def taken(overrides: Sequence[str]) -> list[str]:
    """Overrides of what the study sets itself."""
    return [override for override in overrides if key_of(override) in SET_BY_THE_STUDY]


def _split_given(study: Study) -> Iterator[str]:
    overrides = [*study.base, *(override for arm in study.arms.values() for override in arm)]
    for override in overrides if "split" in study.vary else ():
        if key_of(override) == SPLIT_FIELD:
            yield f"vary=[split] draws the splits by the seeds, and {override} fixes them: remove one"


def _axes(study: Study) -> Iterator[str]:
    """Numbers of seeds, shares of the budget, multiples of the length."""
    seeds, looks, shares = study.seeds, study.looks, study.shares
    if len(set(seeds)) < len(seeds) or not seeds or min(seeds) < 0:
        yield f"seeds={show(seeds)} is refused: give a number of seeds, or different ones from 0 on, [0,1,2]"
    if looks and (looks[0] < 2 or any(after <= before for before, after in pairwise(looks))):
        yield f"looks={show(looks)} is refused: give rising numbers of seeds from 2 on, [3,5,8]"
    if looks and seeds != tuple(range(study.first_seed, study.first_seed + len(seeds))):
        yield f"seeds={show(seeds)} does not go with looks={show(looks)}, which count from the first on: give seeds=3"
    if study.rounds is not None:
        yield from _rounds(study, study.rounds)
    if not shares or max(shares) != 1 or min(shares) <= 0 or len(set(shares)) < len(shares):
        yield f"shares={show(shares)} is refused: give different parts of the budget and the whole, [0.25,0.5,1]"
    if any(length < 1 for length in study.lengths):
        yield f"lengths={show(study.lengths)} is refused: give multiples of the training length, [1,2,4]"


def _rounds(study: Study, rounds: SeedRounds) -> Iterator[str]:
    """Seeds that are added until it is decided."""
    written = f"seeds={{start: {rounds.start}, most: {rounds.most}, until: decided}}"
    fewest = fewest_seeds(study.alpha / max(1, len(study.contrasts)), rounds.start, _MOST_ROUNDS)
    if not 2 <= rounds.start <= rounds.most <= _MOST_ROUNDS:
        yield f"{written} is refused: give start from 2 on, and most from there to {_MOST_ROUNDS}"
    elif study.looks:
        yield f"{written} looks after every seed, and looks={show(study.looks)} at some: remove looks"
    elif study.ablation is not None or len(study.shares) > 1:
        key = "shares" if study.ablation is None else "ablation"
        yield f"{written} does not go with {key}, whose tests need a fixed number of seeds: give one, or take {key} out"
    elif study.solved_at is None and (fewest is None or fewest > rounds.most):
        family = f"{len(study.contrasts)} contrast{'s' if len(study.contrasts) > 1 else ''}"
        yield f"{written} can decide nothing: {family} need at least {fewest or _MOST_ROUNDS} seeds: give most more"


def _unknown_arms(study: Study) -> Iterator[str]:
    named = {"baseline": [study.baseline], "contrasts": [arm for pair in study.contrasts for arm in pair]}
    named |= {key: list(getattr(study, key)) for key in ("expected", "seed_offsets", "movable")}
    for key, names in named.items():
        for arm in names:
            if arm not in study.arms:
                yield unknown(f"{key} names {arm}, which is not an arm", arm, list(study.arms))
    for arm, other in study.contrasts:
        if arm == other:
            yield f"the contrast [{arm}, {other}] compares an arm with itself: name two"
    if len(set(map(frozenset, study.contrasts))) < len(study.contrasts):
        yield (
            f"contrasts={show(study.contrasts)} has the same contrast twice, which makes each verdict harder to "
            "reach: remove one"
        )
    compared = {arm for arm, other in study.contrasts if other == study.baseline}
    for arm in study.expected:
        if arm not in compared:
            yield f"expected names {arm}, which no contrast compares with the baseline: {one_of(compared)}"


def _taken_fields(study: Study) -> Iterator[str]:
    tuned = [f"{key}=..." for key in study.tuning.space] if isinstance(study.tuning, Tuning) else []
    arms = [(f"arm {arm}", choices) for arm, choices in study.arms.items()]
    arms += [(f"foundation {name}", choices) for name, choices in study.foundations.items()]
    for index, overrides in (("base", study.base), ("tuning.space", tuned), *arms):
        for override in taken(overrides):
            yield f"{index} holds {override}, which the study sets itself: {INSTEAD}"


def _scaling(study: Study) -> Iterator[str]:
    """Families that name what is not there, a sentence each."""
    if study.scaling is None:
        return
    families = study.scaling.families
    if not study.scaling.axes:
        yield f"scaling.axes=[] is refused: give one or more of {', '.join(AXES)}, or leave it out for all"
    if isinstance(families, str):
        factors = list(study.ablation.factors) if study.ablation is not None else []
        if families not in factors:
            yield unknown(f"scaling.families={families} is not a factor of the ablation", families, factors)
    else:
        for family, arms in families.items():
            for arm in arms:
                if arm not in study.arms:
                    yield unknown(f"scaling.families.{family} names {arm}, which is not an arm", arm, list(study.arms))
    if study.direction == "max":
        yield f"scaling fits laws to losses, which fall, and metric={study.metric} should rise: remove scaling"
