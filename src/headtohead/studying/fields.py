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
    Null,
    Number,
    OneOf,
    Text,
    Whole,
)  # fmt: skip
from headtohead.studying.ablation.reading import AblationField
from headtohead.studying.scaling import ScalingField
from headtohead.studying.study import BUDGETS, UNLIKE, VERDICTS, Study, WantedBudget
from headtohead.studying.tuning.reading import TUNING

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


KINDS: dict[str, Kind] = {
    "question": Text(),
    "hypothesis": Text(),
    "tuning": TUNING,
    "arms": MappingOf(_OVERRIDES),
    "seeds": Either((Whole(), ListOf(Whole()))),
    "metric": Text(),
    "direction": OneOf(("min", "max")),
    "baseline": Text(),
    "base": _OVERRIDES,
    "contrasts": ListOf(ListOf(Text(), (Text(), Text()))),
    "margin": Either((Number(), Null())),
    "budget": Either((BudgetField(), Null())),
    "movable": MappingOf(ListOf(Text())),
    "looks": ListOf(Whole()),
    "shares": ListOf(Number()),
    "lengths": ListOf(Whole()),
    "foundations": MappingOf(_OVERRIDES),
    "ablation": Either((AblationField(), Null())),
    "scaling": Either((ScalingField(), Null())),
    "allow_unlike": ListOf(OneOf(UNLIKE)),
    "expected": MappingOf(ListOf(OneOf(VERDICTS))),
    "seed_offsets": MappingOf(Whole()),
    "alpha": Number(),
    "best": Either((Number(), Null())),
    "solved_at": Either((Number(), Null())),
}
FIELDS = tuple(KINDS)

assert {field.name for field in fields(Study)} == {"name", *KINDS}
