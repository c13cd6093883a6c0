"""What each field of a study's YAML may hold."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from headtohead.building.kinds import (
    Anything,
    Either,
    Kind,
    ListOf,
    MappingOf,
    MismatchError,
    Null,
    OneOf,
    Text,
    Whole,
)  # fmt: skip
from headtohead.studying.ablation.reading import AblationField
from headtohead.studying.expecting import ExpectationKind
from headtohead.studying.scaling import ScalingField
from headtohead.studying.study import BUDGETS, UNLIKE, VARY, Study, WantedBudget
from headtohead.studying.tuning.reading import TUNING, Figure

_OVERRIDES = ListOf(Text())


@dataclass(frozen=True)
class BudgetField(Kind):
    """A name, or a name with options."""

    def read(self, value: Any) -> WantedBudget:
        if isinstance(value, dict) and len(value) == 1:
            name, options = next(iter(value.items()))
            return WantedBudget(OneOf(BUDGETS).read(name), MappingOf(Anything()).read(options))
        return WantedBudget(OneOf(BUDGETS).read(value))

    def wants(self) -> str:
        return f"{OneOf(BUDGETS).wants()}, or one with its options, {{equal_parameters: {{tolerance: 0.01}}}}"


@dataclass(frozen=True)
class ByArm(Kind):
    """A mapping whose keys are names: YAML reads 16 as a number, and on as true."""

    item: Kind

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MismatchError(MappingOf(self.item).wants())
        for name in value:
            if isinstance(name, bool) or not isinstance(name, str | int | float):
                raise MismatchError("a mapping from names of arms: write names such as 'on' and 'no' in quotes")
        return MappingOf(self.item).read({str(name): entry for name, entry in value.items()})

    def wants(self) -> str:
        return MappingOf(self.item).wants()


KINDS: dict[str, Kind] = {
    "question": Text(),
    "hypothesis": Text(),
    "tuning": TUNING,
    "arms": ByArm(_OVERRIDES),
    "seeds": Either((Whole(), ListOf(Whole()))),
    "metric": Text(),
    "direction": OneOf(("min", "max")),
    "baseline": Text(),
    "base": _OVERRIDES,
    "contrasts": ListOf(ListOf(Text(), (Text(), Text()))),
    "margin": Either((Figure(), Null())),
    "budget": Either((BudgetField(), Null())),
    "movable": ByArm(ListOf(Text())),
    "looks": ListOf(Whole()),
    "shares": ListOf(Figure()),
    "lengths": ListOf(Whole()),
    "foundations": MappingOf(_OVERRIDES),
    "ablation": Either((AblationField(), Null())),
    "scaling": Either((ScalingField(), Null())),
    "allow_unlike": ListOf(OneOf(UNLIKE)),
    "expected": ByArm(ListOf(ExpectationKind())),
    "seed_offsets": ByArm(Whole()),
    "vary": ListOf(OneOf(VARY)),
    "alpha": Figure(),
    "best": Either((Figure(), Null())),
    "solved_at": Either((Figure(), Null())),
}
FIELDS = tuple(KINDS)

assert {field.name for field in fields(Study)} == {"name", "departures", *KINDS}
