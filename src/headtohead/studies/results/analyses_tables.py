"""Show analyses on a terminal: what a design can tell beforehand; effects, laws and the ranking over the budget
afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.budget_ranking import BudgetRanking
from headtohead.comparison.analyses.effects_text import effects_table, explained
from headtohead.comparison.analyses.scaling_fits import ScalingFits
from headtohead.comparison.analyses.tuning_summary import TuningSummary
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.statistics.scaling_laws import FittedValue
from headtohead.comparison.tables.run_table import count, number
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.report_content import factors_in


def show_aliases(plan: StudyPlan) -> Iterator[Text]:
    """Show what so few combinations cannot distinguish."""
    factors = factors_in(plan)
    if factors is None or not factors.crossed:
        return
    for each in factors.design(list(factors.arms)).estimators():
        others = " and ".join(alias.name for alias in each.aliases)
        if each.weights is None:
            yield Text(f"not estimable: {each.effect.name}" + (f", aliased with {others}" if others else ""))
        elif others:
            yield Text(f"estimable if {others} {'is' if len(each.aliases) == 1 else 'are'} zero: {each.effect.name}")


def show_analysed(results: ComparisonResults) -> Iterator[RenderableType]:
    """Nothing of what was not asked."""
    if results.effects is not None:
        yield effects_table(results.effects)
        yield Text(explained(results.effects))
        yield from (Text(remark, style="yellow") for remark in results.effects.remarks)
    if results.ranking is not None:
        yield from _ranked(results.ranking)
    if results.scaling is not None:
        yield from _scaled(results.scaling)


def _ranked(ranking: BudgetRanking) -> Iterator[RenderableType]:
    for each in ranking.shares:
        yield Text(f"at {each.share:.0%} of the budget: {', '.join(ranked.arm for ranked in each.standings)}")
    for sentence in (*ranking.remarks, *(sentence for pair in ranking.pairs for sentence in pair.sentences)):
        yield Text(sentence, style="yellow")


def _scaled(scaling: ScalingFits) -> Iterator[RenderableType]:
    table = Table(header_style="bold", title="scaling laws", title_justify="left")
    for name in ("family", "over"):
        table.add_column(name, overflow="fold")
    for name in ("exponent", "floor"):
        table.add_column(name, justify="right", no_wrap=True)
    for family in scaling.families:
        for fit in family.fits:
            runs = (_fitted(fit.exponent), _fitted(fit.floor)) if fit.reason is None else ("-", "-")
            table.add_row(Text(family.name), fit.axis, *runs)
    yield table
    for family in scaling.families:
        for fit in family.fits:
            if fit.reason is not None:
                yield Text(f"no law of {family.name} over {fit.axis}: {fit.reason}")
        if family.joint is not None and family.joint.frontier:
            largest = [point for point in family.joint.frontier if not point.beyond][-1]
            yield Text(
                f"{family.name}: {count(largest.flops)} FLOPs are best spent on {count(largest.parameters.value)} "
                f"parameters and {count(largest.tokens.value)} tokens; the best size grows with FLOPs to the power "
                f"{_fitted(family.joint.frontier_exponent)}"
            )


def _fitted(each: FittedValue | None) -> str:
    return "-" if each is None else each.words


def show_tuning(summary: TuningSummary) -> RenderableType:
    """Below the table of arms."""
    table = Table(header_style="bold")
    table.add_column(Text("tuning of"), overflow="fold")
    table.add_column(Text("best"), overflow="fold")
    for name in (summary.design.metric, "trials", "diverged", "failed", "FLOPs"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for arm in summary.arms:
        best = arm.best
        table.add_row(
            Text(arm.arm),
            Text("-" if best is None else best.setting.words),
            number(None if best is None else best.value),
            f"{len(arm.trials)} of {summary.design.trials}",
            str(arm.diverged),
            str(arm.failed),
            count(arm.flops),
        )
    return Group(table, Text(summary.sentence), *(Text(remark, style="yellow") for remark in summary.remarks))
