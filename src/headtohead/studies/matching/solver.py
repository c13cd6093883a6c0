"""All arms of a study brought to what the baseline costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.config.rules.config_view import ConfigView
from headtohead.estimates.run_cost import CostedRun, RunCosts, StepTiming
from headtohead.studies.matching.arm_shape import ArmShape, ShapeSearch
from headtohead.studies.matching.budgets import SIZE_AXES, Budget, EqualEnergy, MeasuredBudget, SizeAxisName
from headtohead.studies.matching.matching import MatchedArm, Matching, differences
from headtohead.studies.matching.size_axes import overrides_of

Report = Callable[[str], None]
Movable = Mapping[str, Sequence[str]]


def match(
    base: Sequence[str],
    arms: Mapping[str, Sequence[str]],
    baseline: str,
    budget: Budget,
    movable: Movable | None = None,
    *,
    config_dir: str | Path | None = None,
    report: Report | None = None,
) -> Matching:
    """The baseline stays as it is written; `movable` says, by arm, which moves may bring it there, the first first.

    Overrides of an arm come after those of the base. An arm that no shape brings there is said to be so, with the
    nearest; what cannot be asked at all raises ConfigurationError.
    """
    configs = {name: _composed(name, [*base, *overrides], config_dir) for name, overrides in arms.items()}
    result = match_composed(configs, baseline, budget, movable, report=report)
    for arm in result.arms:
        if arm.overrides:
            _composed(arm.name, [*base, *arms[arm.name], *arm.overrides], config_dir)
    return result


def match_composed(
    configs: Mapping[str, Mapping[str, Any]],
    baseline: str,
    budget: Budget,
    movable: Movable | None = None,
    *,
    report: Report | None = None,
) -> Matching:
    """The same of arms that are composed already."""
    moves = _moves_by_arm(configs, baseline, budget, movable or {})
    _check_steps(configs, budget)
    timings = _timings(configs, budget, report)
    costs = RunCosts()
    runs = {name: _costed(name, config, timings.get(name), costs) for name, config in configs.items()}
    target = budget.of(runs[baseline])
    if target <= 0:
        raise ConfigurationError(
            f"{baseline} has no {label(budget.figure)} that others could have as much of: choose another budget or "
            f"baseline"
        )
    matched = [_as_written(baseline, runs[baseline], target)]
    for name, run in runs.items():
        if name != baseline:
            if report is not None:
                report(f"{name}: looking for {label(budget.figure)} equal to {baseline}'s")
            matched.append(_matched(name, run, moves[name], budget, target, runs[baseline]))
    return Matching(budget, baseline, target, tuple(matched))


def label(name: str) -> str:
    """Return a figure or a move in words."""
    return name.replace("_", " ").replace("flops", "FLOPs").replace("non embedding", "non-embedding")


def _moves_by_arm(
    arms: Mapping[str, object], baseline: str, budget: Budget, movable: Movable
) -> dict[str, tuple[SizeAxisName, ...]]:
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


def _check_steps(configs: Mapping[str, Mapping[str, Any]], budget: Budget) -> None:
    for name, config in configs.items():
        if "steps" in budget.changed_by and not ConfigView(config).trained_by_steps:
            raise ConfigurationError(
                f"arm {name}: {ConfigView(config).chosen('model')} is fitted to all its rows in one step, so its "
                f"{label(budget.figure)} cannot be made equal to those of others: leave it out, or set no "
                "budget or budget=equal_parameters"
            )


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


def _composed(name: str, overrides: Sequence[str], config_dir: str | Path | None) -> dict[str, Any]:
    try:
        return compose_checked("train", overrides, config_dir)
    except ConfigurationError as error:
        raise ConfigurationError(f"arm {name}: {error}") from None


def _costed(name: str, config: Mapping[str, Any], timing: StepTiming | None, costs: RunCosts) -> CostedRun:
    try:
        return costs.of(config, timing)
    except ConfigurationError as error:
        raise ConfigurationError(f"arm {name}: {error}") from None


def _timings(configs: Mapping[str, Mapping[str, Any]], budget: Budget, report: Report | None) -> dict[str, StepTiming]:
    if not isinstance(budget, MeasuredBudget):
        return {}
    from headtohead.estimates.step_times import measure_step_times

    return measure_step_times(
        configs,
        rounds=budget.rounds,
        turn_steps=budget.turn_steps,
        with_energy=isinstance(budget, EqualEnergy),
        report=report,
    )


def _as_written(name: str, run: CostedRun, target: float) -> MatchedArm:
    return MatchedArm(name, (), run.figures(), target, 0.0, met=True, timing=run.timing)


def _matched(
    name: str, run: CostedRun, moves: Sequence[SizeAxisName], budget: Budget, target: float, baseline: CostedRun
) -> MatchedArm:
    shaper = ShapeSearch(run, budget, target)
    shape = shaper.nearest(moves)
    figures = shaper.run_of(shape.setting).figures()
    met = shaper.meets(shape.value)
    return MatchedArm(
        name,
        overrides_of(shape.setting),
        figures,
        shape.value,
        shape.value / target - 1,
        met,
        uncertainty=run.uncertainty(baseline, budget.figure),
        reason="" if met else _reason(shape, shaper, moves, budget, target),
        differs=differences(figures, baseline.figures(), budget),
        timing=run.timing,
    )


def _reason(shape: ArmShape, shaper: ShapeSearch, moves: Sequence[SizeAxisName], budget: Budget, target: float) -> str:
    can = [label(move) for move in moves if move not in shaper.cannot]
    cannot = [f"{label(move)} cannot move, since {why}" for move, why in shaper.cannot.items()]
    nearest = " ".join(overrides_of(shape.setting)) or "as it is written"
    together = ", alone and two together," if shaper.has_pairs else ""
    tried = (
        f"of {shaper.num_evaluations} settings of {' and '.join(can)}{together} none gives"
        if can
        else "nothing moves to"
    )
    others = [label(move) for move in budget.changed_by if move not in moves]
    return "; ".join(
        [
            f"{tried} {target:.6g} {label(budget.figure)} within {100 * budget.tolerance:g} %",
            f"the nearest, {nearest}, has {shape.value:.6g} ({100 * (shape.value / target - 1):+.1f} %)",
            *cannot,
            *([f"it could also move {' or '.join(others)}"] if others else []),
        ]
    )
