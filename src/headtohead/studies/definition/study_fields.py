"""Define what each field of a study's YAML may hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from headtohead.comparison.contrasts import SeedRounds, Verdict
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
)  # fmt: skip
from headtohead.studies.definition.ablation import AblationField
from headtohead.studies.definition.study import (
    BUDGETS,
    FLOOR,
    UNLIKE,
    VARY,
    VERDICTS,
    RequestedBudget,
    ScalingField,
    Study,
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
        return MappingOf(self.item).read({str(name): entry for name, entry in value.items()})

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
