"""On a terminal: what a design can tell beforehand; effects, laws and the ranking over the budget afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparing.effects_words import effects_table, explained
from headtohead.comparing.findings import Findings
from headtohead.comparing.ranking import Ranking
from headtohead.comparing.scaling_fits import ScalingFits
from headtohead.comparing.statistics.scaling import Fitted
from headtohead.comparing.table import count
from headtohead.studying.analysing import factors_in
from headtohead.studying.planning import Plan


def show_aliases(plan: Plan) -> Iterator[Text]:
    """What this many combinations cannot tell apart."""
    factors = factors_in(plan)
    if factors is None or not factors.crossed:
        return
    for each in factors.design(list(factors.arms)).estimators():
        others = " and ".join(alias.name for alias in each.aliases)
        if each.weights is None:
            yield Text(f"not estimable: {each.effect.name}" + (f", aliased with {others}" if others else ""))
        elif others:
            yield Text(f"estimable if {others} {'is' if len(each.aliases) == 1 else 'are'} zero: {each.effect.name}")


def show_analysed(findings: Findings) -> Iterator[RenderableType]:
    """Nothing of what was not asked."""
    if findings.effects is not None:
        yield effects_table(findings.effects)
        yield Text(explained(findings.effects))
        yield from (Text(remark, style="yellow") for remark in findings.effects.remarks)
    if findings.ranking is not None:
        yield from _ranked(findings.ranking)
    if findings.scaling is not None:
        yield from _scaled(findings.scaling)


def _ranked(ranking: Ranking) -> Iterator[RenderableType]:
    for each in ranking.shares:
        yield Text(f"at {each.share:.0%} of the budget: {', '.join(standing.arm for standing in each.standings)}")
    for told in (*ranking.remarks, *(told for pair in ranking.pairs for told in pair.sentences)):
        yield Text(told, style="yellow")


def _scaled(scaling: ScalingFits) -> Iterator[RenderableType]:
    table = Table(header_style="bold", title="scaling laws", title_justify="left")
    for name in ("family", "over"):
        table.add_column(name, overflow="fold")
    for name in ("exponent", "floor"):
        table.add_column(name, justify="right", no_wrap=True)
    for family in scaling.families:
        for fit in family.fits:
            told = (_fitted(fit.exponent), _fitted(fit.floor)) if fit.reason is None else ("-", "-")
            table.add_row(Text(family.name), fit.axis, *told)
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


def _fitted(each: Fitted | None) -> str:
    return "-" if each is None else each.words
