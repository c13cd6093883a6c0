"""Draw how evidence grew over seeds in each contrast of a study that adds them until it is decided, and where it
stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headtohead.comparison.arm_colours import INK, MUTED, ArmStyle, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.contrasts import SeedEvidence, StopReason, Verdict
from headtohead.comparison.report.section_parts import (
    ArmName,
    Badge,
    Cell,
    Column,
    ReportTable,
    Section,
    figure,
)

REASONS: dict[StopReason, str] = {
    "decided": "decided",
    "futile": "futile: the seeds left are not expected to decide it",
    "all seeds": "all seeds are in",
    "open": "goes on",
}
_SYMBOLS: dict[StopReason, str] = {"decided": "star", "futile": "x", "all seeds": "square", "open": "circle-open"}
_DASHES = ("solid", "dot", "dash")
_MOST = 1e6
"""Evidence beyond is drawn there."""


def section(results: ComparisonResults) -> Section | None:
    """Return None where the number of seeds was fixed."""
    known = [(verdict, verdict.seed_evidence) for verdict in results.verdicts if verdict.seed_evidence is not None]
    if not known:
        return None
    styles = styles_of(results)
    data = [trace for verdict, evidence in known for trace in _traces(verdict, evidence, styles[verdict.arm])]
    form = {"data": data, "layout": _layout([evidence for _, evidence in known])}
    return Section("Evidence over seeds", "seeds", [figure(form, _caption(known[0][1])), _table(known)])


def _traces(verdict: Verdict, evidence: SeedEvidence, style: ArmStyle) -> Iterator[dict[str, Any]]:
    label = f"{verdict.arm} against {verdict.baseline}"
    for (name, curve), dash in zip(evidence.curves.items(), _DASHES, strict=False):
        drawn = [min(10.0**value, _MOST) for value in curve]
        yield {
            "type": "scatter", "mode": "lines", "name": label, "legendgroup": label, "showlegend": dash == "solid",
            "x": list(range(1, len(curve) + 1)), "y": drawn, "line": {"color": style.colour, "dash": dash},
            "hovertemplate": f"{name}, %{{x}} seeds: %{{y:.3g}}<extra></extra>",
        }  # fmt: skip
        if drawn and dash == "solid":
            yield {
                "type": "scatter", "mode": "markers", "legendgroup": label, "showlegend": False,
                "x": [len(drawn)], "y": [drawn[-1]],
                "marker": {"color": style.colour, "symbol": _SYMBOLS[evidence.stop.reason], "size": 12},
                "text": [f"{label}: {REASONS[evidence.stop.reason]}"], "hovertemplate": "%{text}<extra></extra>",
            }  # fmt: skip


def _layout(known: Sequence[SeedEvidence]) -> dict[str, Any]:
    rounds, threshold = known[0].rounds, 10.0 ** known[0].threshold
    line = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": threshold, "y1": threshold}
    return {
        "xaxis": {"title": {"text": "seeds"}, "range": [0.5, rounds.most + 0.5]},
        "yaxis": {"title": {"text": "evidence, 1 is none"}, "type": "log", "exponentformat": "power"},
        "shapes": [
            {**line, "line": {"color": INK, "width": 1.2}},
            {**line, "y0": 1, "y1": 1, "line": {"color": MUTED}},
        ],
    }


def _caption(evidence: SeedEvidence) -> str:
    both = (
        "Solid lines are the evidence that holds for normal differences, dotted ones that of flipped signs, which "
        "holds for every shape of equal arms: a contrast needs both. "
        if len(evidence.curves) > 1
        else ""
    )
    if len(evidence.curves) > 2:
        both += (
            "Dashed lines are the evidence that the difference lies within the margin: alone it makes arms equivalent. "
        )
    return (
        f"Evidence against equal arms after each seed. {both}Above the dark line ({10**evidence.threshold:.3g}) a "
        "contrast is decided whatever the rest of its family says. Stars mark where one was decided, crosses where it "
        "was stopped for futility, squares where all seeds are in. What was reached once is not lost by a later fall."
    )


def _table(known: Sequence[tuple[Verdict, SeedEvidence]]) -> ReportTable:
    rows: list[list[Cell]] = [
        [
            ArmName(verdict.arm),
            ArmName(verdict.baseline),
            f"{evidence.stop.num_seeds} of {evidence.rounds.most}",
            REASONS[evidence.stop.reason],
            Badge(verdict.kind, verdict.exploratory, verdict.why),
        ]
        for verdict, evidence in known
    ]
    columns = [
        Column("arm"),
        Column("against"),
        Column("seeds", numeric=True),
        Column("why no more"),
        Column("verdict"),
    ]
    return ReportTable(columns, rows, "Seeds of each contrast, and why it got no more.")
