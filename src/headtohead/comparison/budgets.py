"""Check what the arms of a comparison had in equal amounts, within 2 %, and by how much the rest differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from headtohead.comparison.arms import Arm
from headtohead.comparison.comparability import NotComparable

TOLERANCE = 0.02
_PERCENT = f"{100 * TOLERANCE:g} %"
_AXES: Mapping[str, str] = {
    "parameters": "parameters",
    "flops": "training FLOPs",
    "tokens": "tokens",
    "time": "seconds",
    "state": "state",
    "energy": "joules",
}
_UNMEASURED = (
    "record.json says why under environment.device.energy: choose equal_time, equal_flops or another, or compare "
    "without --budget"
)
_FEW = 4
"""Arms up to which each is named in a sentence."""
KINDS = tuple(f"equal_{axis}" for axis in _AXES)


@dataclass(frozen=True)
class BudgetAxis:
    """One cost over the arms."""

    name: str
    """parameters, flops, tokens, time, state, or energy where some arm's was measured."""
    amounts: dict[str, float]
    """The amounts by arm, as far as its records say."""
    unknown: tuple[str, ...]
    """Arms whose records do not say."""
    odd: dict[str, float | None]
    """Arms off by more than the tolerance, each as a multiple of the others' amount; None where they have nothing."""

    @property
    def equal(self) -> bool:
        return not self.odd and not self.unknown


@dataclass(frozen=True)
class BudgetCheck:
    """All costs over the arms."""

    axes: tuple[BudgetAxis, ...]

    @property
    def sentence(self) -> str:
        """Return one line: what is equal, what differs, what is not known."""
        equal = [_AXES[axis.name] for axis in self.axes if axis.equal]
        unlike = [f"{_AXES[axis.name]} ({_in_short(axis)})" for axis in self.axes if axis.odd]
        unknown = [_AXES[axis.name] for axis in self.axes if axis.unknown and not axis.odd]
        if len(unknown) == len(self.axes):
            return "costs: unknown for some arms"
        parts = [
            f"costs: equal within {_PERCENT}: {', '.join(equal) or 'nothing'}",
            *([f"different: {', '.join(unlike)}"] if unlike else []),
            *([f"unknown for some arms: {', '.join(unknown)}"] if unknown else []),
        ]
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return {"tolerance": TOLERANCE, "sentence": self.sentence, "axes": [asdict(axis) for axis in self.axes]}


def budget_check(arms: Sequence[Arm], baseline: str) -> BudgetCheck:
    """Check the arms against the baseline; if all others agree and it does not, the baseline is the one that
    differs."""
    names = [name for name in _AXES if name != "energy" or any(_amount(arm, name) is not None for arm in arms)]
    return BudgetCheck(tuple(_axis(name, arms, baseline) for name in names))


def refuse_unequal(check: BudgetCheck, kind: str) -> None:
    """Raises NotComparable where the arms do not have what `kind` (equal_flops) says that they have."""
    if kind not in KINDS:
        raise NotComparable(f"budget {kind} is not known: choose from {', '.join(KINDS)}")
    axis = next((axis for axis in check.axes if f"equal_{axis.name}" == kind), None)
    if axis is None or (axis.name == "energy" and axis.unknown):
        which = "any arm" if axis is None else ", ".join(axis.unknown)
        raise NotComparable(f"{kind}: the energy of {which} was not measured, or not by one counter; {_UNMEASURED}")
    description = _AXES[axis.name]
    if axis.unknown:
        raise NotComparable(f"{kind}: the records of {', '.join(axis.unknown)} do not say their {description}")
    if axis.odd:
        raise NotComparable(
            f"{kind}: unequal {description}: {_multiples(axis)} of the others, which is more than "
            f"{_PERCENT} off: leave it out, match it (h2h match), or compare without --budget"
        )


def _axis(name: str, arms: Sequence[Arm], baseline: str) -> BudgetAxis:
    known = {arm.name: amount for arm in arms if (amount := _amount(arm, name)) is not None}
    if name == "energy":
        source = next((arm.costs.energy_source for arm in arms if arm.name == baseline), None)
        known = {arm.name: known[arm.name] for arm in arms if arm.name in known and arm.costs.energy_source == source}
    unknown = tuple(arm.name for arm in arms if arm.name not in known)
    return BudgetAxis(name, known, unknown, _unequal(known, baseline))


def _amount(arm: Arm, axis: str) -> float | None:
    costs = arm.costs
    return {
        "parameters": costs.parameters,
        "flops": costs.flops,
        "tokens": costs.tokens,
        "time": costs.seconds,
        "state": costs.state_elements,
        "energy": costs.joules,
    }[axis]


def _unequal(amounts: Mapping[str, float], baseline: str) -> dict[str, float | None]:
    if baseline not in amounts or len(amounts) < 2:
        return {}
    others = [amount for arm, amount in amounts.items() if arm != baseline]
    if len(others) > 1 and all(_alike(amount, others[0]) for amount in others):
        against = fmean(others)
        return {} if _alike(amounts[baseline], against) else {baseline: _multiple(amounts[baseline], against)}
    against = amounts[baseline]
    return {arm: _multiple(amount, against) for arm, amount in amounts.items() if not _alike(amount, against)}


def _alike(amount: float, other: float) -> bool:
    return abs(amount - other) <= TOLERANCE * abs(other)


def _multiple(amount: float, other: float) -> float | None:
    return amount / other if other else None


def _in_short(axis: BudgetAxis) -> str:
    """Summarise many arms by their number and their range."""
    known = [multiple for multiple in axis.odd.values() if multiple is not None]
    if len(axis.odd) <= _FEW or len(known) < len(axis.odd):
        return _multiples(axis)
    return f"{len(known)} arms {min(known):.3g} to {max(known):.3g} times"


def _multiples(axis: BudgetAxis) -> str:
    return ", ".join(
        f"{arm} {'some, the others none' if multiple is None else f'{multiple:.3g} times'}"
        for arm, multiple in axis.odd.items()
    )
