"""Represent the result of a matching: each arm as it would be run, how close it comes to the baseline, and what differs
elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headtohead.estimates.run_cost import StepTiming
from headtohead.studies.matching.budgets import Budget


@dataclass(frozen=True)
class MatchedArm:
    """One arm, the baseline among them."""

    name: str
    overrides: tuple[str, ...]
    """To be added to the arm's own; empty where it fits as it is written."""
    figures: Mapping[str, float]
    """What the run would cost with them, by the names of the budgets' figures."""
    achieved: float
    residual: float
    """(achieved - target) / target."""
    met: bool
    reason: str = ""
    """Why the budget is not met."""
    uncertainty: float = 0.0
    """Share by which the residual may be off, where the figure is measured and not counted."""
    differs: Mapping[str, float] = field(default_factory=dict)
    """The other figures that are not within the tolerance, as multiples of the baseline's."""
    timing: StepTiming | None = None


@dataclass(frozen=True)
class Matching:
    """All arms under one budget."""

    budget: Budget
    baseline: str
    target: float
    arms: tuple[MatchedArm, ...]

    @property
    def met(self) -> bool:
        return all(arm.met for arm in self.arms)

    def arm(self, name: str) -> MatchedArm:
        return next(arm for arm in self.arms if arm.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for --json and for records."""
        return {
            "budget": {"figure": self.budget.figure, **asdict(self.budget)},
            "baseline": self.baseline,
            "target": self.target,
            "met": self.met,
            "arms": {arm.name: {**asdict(arm), "overrides": list(arm.overrides)} for arm in self.arms},
        }


def uncertain(arm: MatchedArm, budget: Budget) -> bool:
    """Return whether the measurement is too coarse to tell that the budget is met."""
    return arm.met and arm.uncertainty > budget.tolerance


def differences(figures: Mapping[str, float], baseline: Mapping[str, float], budget: Budget) -> dict[str, float]:
    """Multiples of the baseline's figures, of all but the matched one; where the baseline has nothing, nothing is
    said."""
    ratios = {name: figures[name] / baseline[name] for name in figures if baseline.get(name) and name != budget.figure}
    return {name: ratio for name, ratio in ratios.items() if abs(ratio - 1) > budget.tolerance}
