"""A matching for the terminal: what was matched and how closely, what therefore differs, what could not be."""

from __future__ import annotations

from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.estimates.run_cost import FIGURES
from headtohead.studies.matching.matching import MatchedArm, Matching, uncertain
from headtohead.studies.matching.solver import label


def show_matching(matching: Matching) -> RenderableType:
    timings = [_timings(matching)] if any(arm.timing for arm in matching.arms) else []
    reasons = [Text(f"{arm.name}: {arm.reason}") for arm in matching.arms if arm.reason]
    return Group(_matched(matching), _others(matching), *timings, *reasons, *_cautions(matching))


def _cautions(matching: Matching) -> list[Text]:
    names = [arm.name for arm in matching.arms if uncertain(arm, matching.budget)]
    tolerance = f"{100 * matching.budget.tolerance:g} %"
    caution = (
        f"{', '.join(names)}: turns scatter by more than {tolerance}, so that "
        f"{'energy' if matching.budget.figure == 'joules' else 'time'} is not known to be equal within it; "
        f"measure on a quieter device, with more budget.rounds or budget.turn_steps"
    )
    return [Text(caution)] if names else []


def _matched(matching: Matching) -> Table:
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


def _timings(matching: Matching) -> Table:
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
