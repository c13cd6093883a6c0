"""All arms of a study brought to what the baseline costs, and the matching for the terminal: what was matched and how
closely, what therefore differs, what could not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.config_view import ConfigView
from headtohead.estimates.run_cost import FIGURES, CostedRun, RunCosts
from headtohead.estimates.step_timing import StepTiming
from headtohead.studies.matching.allowed_moves import Movable, Report, moves_by_arm
from headtohead.studies.matching.arm_shape import ArmShape, ShapeSearch
from headtohead.studies.matching.budgets import Budget, EqualEnergy, MeasuredBudget, SizeAxisName, label
from headtohead.studies.matching.matching import MatchedArm, Matching, differences, uncertain
from headtohead.studies.matching.size_axes import overrides_of


def match_composed(
    configs: Mapping[str, Mapping[str, object]],
    baseline: str,
    budget: Budget,
    movable: Movable | None = None,
    *,
    report: Report | None = None,
) -> Matching:
    """Bring composed arms to what the baseline costs; raise ConfigurationError for what cannot be compared at all."""
    moves = moves_by_arm(configs, baseline, budget, movable or {})
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


def _check_steps(configs: Mapping[str, Mapping[str, object]], budget: Budget) -> None:
    for name, config in configs.items():
        if "steps" in budget.changed_by and not ConfigView(config).trained_by_steps:
            raise ConfigurationError(
                f"arm {name}: {ConfigView(config).chosen('model')} is fitted to all its rows in one step, so its "
                f"{label(budget.figure)} cannot be made equal to those of others: leave it out, or set no "
                "budget or budget=equal_parameters"
            )


def _costed(name: str, config: Mapping[str, object], timing: StepTiming | None, costs: RunCosts) -> CostedRun:
    try:
        return costs.of(config, timing)
    except ConfigurationError as error:
        raise ConfigurationError(f"arm {name}: {error}") from None


def _timings(
    configs: Mapping[str, Mapping[str, object]], budget: Budget, report: Report | None
) -> dict[str, StepTiming]:
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


def show_matching(matching: Matching) -> RenderableType:
    timings = [_timing_table(matching)] if any(arm.timing for arm in matching.arms) else []
    reasons = [Text(f"{arm.name}: {arm.reason}") for arm in matching.arms if arm.reason]
    return Group(_matched_arms(matching), _others(matching), *timings, *reasons, *_cautions(matching))


def _cautions(matching: Matching) -> list[Text]:
    names = [arm.name for arm in matching.arms if uncertain(arm, matching.budget)]
    tolerance = f"{100 * matching.budget.tolerance:g} %"
    caution = (
        f"{', '.join(names)}: turns scatter by more than {tolerance}, so that "
        f"{'energy' if matching.budget.figure == 'joules' else 'time'} is not known to be equal within it; "
        f"measure on a quieter device, with more budget.rounds or budget.turn_steps"
    )
    return [Text(caution)] if names else []


def _matched_arms(matching: Matching) -> Table:
    figure = label(matching.budget.figure)
    title = f"equal {figure}: as {matching.baseline}, within {100 * matching.budget.tolerance:g} %"
    table = Table(title=title, title_justify="left")
    for name in ("arm", "to be added to it", figure, "against the baseline", ""):
        table.add_column(name, justify="right" if name in (figure, "against the baseline") else "left")
    for arm in matching.arms:
        added = " ".join(arm.overrides) or "-"
        table.add_row(arm.name, added, _number(arm.achieved), _residual(arm), _reason_text(arm, matching))
    return table


def _residual(arm: MatchedArm) -> str:
    measured = f" ± {100 * arm.uncertainty:.2g} %" if arm.timing and arm.uncertainty else ""
    return f"{100 * arm.residual:+.2f} %{measured}"


def _reason_text(arm: MatchedArm, matching: Matching) -> str:
    if arm.name == matching.baseline:
        return "baseline"
    if uncertain(arm, matching.budget):
        return "as close as measured"
    return "matched" if arm.met else "not matched; the closest"


def _others(matching: Matching) -> Table:
    """Return every other figure, with its multiple of the baseline's where that is beyond the tolerance."""
    table = Table(title="the arms' costs; differences are multiples of the baseline", title_justify="left")
    table.add_column("arm")
    known = dict.fromkeys(name for arm in matching.arms for name in arm.figures)
    names = [name for name in FIGURES if name in known and name != matching.budget.figure]
    for name in names:
        table.add_column(label(name), justify="right")
    for arm in matching.arms:
        table.add_row(arm.name, *(_with_multiple(arm, name) for name in names))
    return table


def _with_multiple(arm: MatchedArm, name: str) -> str:
    if name not in arm.figures:
        return "-"
    multiple = f"  x{arm.differs[name]:.3g}" if name in arm.differs else ""
    return f"{_number(arm.figures[name])}{multiple}"


def _timing_table(matching: Matching) -> Table:
    device = next(arm.timing.device for arm in matching.arms if arm.timing)
    table = Table(title=f"one training step, arms in turn, on {device}", title_justify="left")
    has_energy = any(arm.timing.joules for arm in matching.arms if arm.timing)
    measured = ("median", "fastest turn", "slowest turn", *(("energy",) if has_energy else ()))
    for name in ("arm", *measured, "kernels"):
        table.add_column(name, justify="left" if name in ("arm", "kernels") else "right")
    for arm in matching.arms:
        if (timing := arm.timing) is not None:
            seconds = (timing.step_seconds, min(timing.turns), max(timing.turns))
            kernels = ", ".join(sorted(set(timing.kernels.values()))) or "torch"
            joules = [f"{median(timing.joules):.4g} J"] if has_energy else []
            table.add_row(arm.name, *(f"{1000 * value:.4g} ms" for value in seconds), *joules, kernels)
    return table


def _number(value: float) -> str:
    """Format a number in full if it is a readable count."""
    return f"{value:,.0f}" if value == int(value) and value < 1e10 else f"{value:.4g}"
