"""The moves that arms may make to cost what the baseline costs, checked before anything is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headtohead.config.errors import ConfigurationError, unknown
from headtohead.studies.matching.budgets import SIZE_AXES, Budget, SizeAxisName, label

Report = Callable[[str], None]
Movable = Mapping[str, Sequence[str]]


def moves_by_arm(
    arms: Mapping[str, object], baseline: str, budget: Budget, movable: Movable
) -> dict[str, tuple[SizeAxisName, ...]]:
    """Return what may move of each arm; raise ConfigurationError for arms and moves that cannot be."""
    if baseline not in arms:
        raise ConfigurationError(unknown(f"baseline={baseline} is not an arm", baseline, list(arms)))
    if len(arms) < 2:
        raise ConfigurationError(f"{baseline} is the only arm, and there is nothing to match it with: give two or more")
    for name in movable:
        if name not in arms:
            raise ConfigurationError(unknown(f"{name} may move and is not an arm", name, list(arms)))
    if movable.get(baseline):
        raise ConfigurationError(
            f"{baseline} is the baseline, which stays as it is written: let the other arms move, or choose another "
            "baseline"
        )
    return {name: _checked(name, movable.get(name) or budget.usual, budget) for name in arms}


def _checked(name: str, moves: Sequence[str], budget: Budget) -> tuple[SizeAxisName, ...]:
    known: dict[str, SizeAxisName] = {move: move for move in SIZE_AXES}
    for move in moves:
        if move not in known:
            raise ConfigurationError(unknown(f"{name} cannot move {move}", move, SIZE_AXES))
        if move not in budget.changed_by:
            raise ConfigurationError(
                f"{name} cannot move {move} for equal {label(budget.figure)}, which it leaves as they are or unknown: "
                f"choose from {', '.join(budget.changed_by)}"
            )
    return tuple(dict.fromkeys(known[move] for move in moves))
