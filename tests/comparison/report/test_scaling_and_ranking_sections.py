"""The report's sections over size and over the budget."""

from __future__ import annotations

from dataclasses import replace

from headtohead.comparison.analyses.budget_ranking import ranking_of
from headtohead.comparison.analyses.scaling_fits import scaling_fits
from headtohead.comparison.comparison_results import ArmResult, ComparisonResults
from headtohead.comparison.contrasts import Values
from headtohead.comparison.report.section_parts import ReportFigure, ReportTable, ReportText
from headtohead.comparison.report.sections.ranking import section as ranking
from headtohead.comparison.report.sections.scaling import section as scaling
from headtohead.records.record import Progress, RunRecord, StudyPosition

FINDINGS = ComparisonResults("small", "test/loss", "min", "a", (ArmResult("a", ()), ArmResult("b", ())), ())


def run(arm: str, size: float, tokens: int) -> RunRecord:
    record = RunRecord(id=f"{arm}{size}{tokens}", status="finished", place=StudyPosition("s", arm, 0))
    record.costs, record.progress = {"totals": {"parameters": size}}, Progress(tokens=tokens, flops=6 * size * tokens)
    return record


def test_without_laws_and_shares_there_are_no_such_sections() -> None:
    assert scaling(FINDINGS) is None and ranking(FINDINGS) is None


def test_laws_are_drawn_over_each_axis_and_a_missing_one_says_why() -> None:
    runs = [(run(f"w{size:g}", size, 10**6), 1.0 + size**-0.3) for size in (1e3, 1e4, 1e5, 1e6)]
    result = scaling_fits({"all": [record.place.arm or "" for record, _ in runs]}, runs, metric="test/loss", samples=20)
    shown = scaling(replace(FINDINGS, scaling=result))
    assert shown is not None
    figure, laws = shown.parts[0], shown.parts[1]
    assert isinstance(figure, ReportFigure) and [len(form["data"]) for form in figure.forms.values()] == [2, 1, 2]
    assert isinstance(laws, ReportTable) and len(laws.rows) == 3
    notes = [part.text for part in shown.parts if isinstance(part, ReportText)]
    assert len(notes) == 1 and notes[0].startswith("No law of all over training tokens: ")


def test_ranks_and_crossings_are_told_and_what_diverged_has_no_mean() -> None:
    early: Values = {"a": {0: 1.0, 1: 1.01}, "b": {0: 2.0, 1: 2.02}, "c": {0: 1.0, 1: None}}
    late: Values = {"a": {0: 1.0, 1: 1.01}, "b": {0: 0.5, 1: 0.52}, "c": {0: 3.0, 1: 3.1}}
    result = ranking_of({0.5: early, 1.0: late}, "abc", metric="test/loss", direction="min", alpha=0.05)
    arms = tuple(ArmResult(name, ()) for name in "abc")
    shown = ranking(replace(FINDINGS, arms=arms, ranking=result))
    assert shown is not None
    ranks, crossing = (part for part in shown.parts if isinstance(part, ReportTable))
    assert [row[1] for row in ranks.rows][-1] == "1 of 2 diverged"
    assert crossing.rows == [["a leads before 80% of the budget and b after it (surely at 50% and at 100%)"]]
