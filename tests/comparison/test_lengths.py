"""Results over length: means with intervals, what cannot be measured, and how terminal and report show it."""

from __future__ import annotations

from math import inf, nan

import pytest
from rich.console import Console

from headtohead.comparison.analyses.length_curves import lengths_of
from headtohead.comparison.comparison_results import ComparisonResults, results_of
from headtohead.comparison.report.section_parts import ReportFigure, ReportTable, Stacked
from headtohead.comparison.report.sections.lengths import section
from headtohead.comparison.tables.results_table import lengths_table
from headtohead.records.record import RunRecord

REASON = "Learned knows 64 positions, and rows of 128 tokens need more"


def run(arm: str, seed: int, *losses: float, cannot: dict[str, str] | None = None) -> RunRecord:
    """Test, then test_2x, test_4x."""
    record = RunRecord(id=f"{arm}-s{seed}", name=arm, seed=seed, status="finished", cannot=cannot or {})
    record.place.arm = arm
    stages = ("test", "test_2x", "test_4x")
    record.metrics |= {stage: {"loss": loss} for stage, loss in zip(stages, losses, strict=False)}
    return record


def arms() -> dict[str, list[RunRecord]]:
    refused = {"test_2x": REASON, "test_4x": REASON.replace("128", "256")}
    return {
        "alibi": [run("alibi", seed, 2.0 + 0.1 * seed, 1.9 + 0.1 * seed, 1.8 + 0.1 * seed) for seed in range(3)],
        "learned": [run("learned", seed, 2.1 + 0.1 * seed, cannot=refused) for seed in range(3)],
    }


def result() -> ComparisonResults:
    records = [record for runs in arms().values() for record in runs]
    return results_of(records, [], title="t", metric="test_4x/loss", direction="min", baseline="alibi")


def test_an_arm_has_its_mean_at_every_multiple_or_the_reason_why_not() -> None:
    curves = lengths_of(arms(), "loss", 0.05)
    assert curves is not None and curves.multiples == (1, 2, 4)
    alibi, learned = curves.curves
    assert [point.mean for point in alibi.points] == pytest.approx([2.1, 2.0, 1.9])
    low, high = alibi.points[2].interval or (nan, nan)
    assert (low + high) / 2 == pytest.approx(1.9) and high - low == pytest.approx(2 * 4.3027 * 0.1 / 3**0.5, rel=1e-3)
    assert [point.mean for point in learned.points] == [pytest.approx(2.2), None, None]
    assert learned.why_not == f"2x: {REASON}" and alibi.why_not == ""


def test_a_run_whose_loss_is_no_number_at_a_length_is_no_part_of_a_mean() -> None:
    runs = {"lstm": [run("lstm", 0, 1.0, 1.0), run("lstm", 1, 1.0, inf)]}
    curves = lengths_of(runs, "loss", 0.05)
    assert curves is not None
    point = curves.curves[0].points[1]
    assert point.mean is None and point.reason == "1 of 2 runs gave no finite number"


def test_runs_that_were_tested_at_one_length_have_no_curves() -> None:
    assert lengths_of({"a": [run("a", 0, 1.0)]}, "loss", 0.05) is None
    assert section(ComparisonResults("t", "test/loss", "min", "a", (), ())) is None


def test_the_terminal_says_cannot_and_why() -> None:
    curves = lengths_of(arms(), "loss", 0.05)
    assert curves is not None
    for width, message in ((200, 2), (80, 3)):
        console = Console(width=width, record=True, file=None)
        with console.capture() as shown:
            console.print(lengths_table(curves))
        text = " ".join(shown.get().split())
        assert "1.900 ±0.25" in text and text.count("cannot") == message and f"2x: {REASON}" in text


def test_the_report_draws_a_curve_for_each_arm_as_far_as_it_goes() -> None:
    made = section(result())
    assert made is not None
    (figure,) = [part for part in made.parts if isinstance(part, ReportFigure)]
    lines = {trace["name"]: trace for trace in figure.forms[()]["data"] if trace.get("showlegend", True)}
    assert lines["alibi"]["x"] == [1, 2, 4] and lines["learned"]["x"] == [1]
    areas = [trace for trace in figure.forms[()]["data"] if "fill" in trace]
    assert areas and list(figure.forms[()]["data"])[: len(areas)] == areas, "no area lies over a line"
    assert all(area["line"]["width"] == 1 for area in areas), "a rim tells areas apart that lie over each other"
    (table,) = [part for part in made.parts if isinstance(part, ReportTable)]
    assert table.rows[1][1:] == [Stacked("2.200", "1.952 to 2.448"), "cannot", "cannot", f"2x: {REASON}"]


@pytest.mark.parametrize(("chance", "drawn"), [(2.3, True), (6.2, False)])
def test_chance_far_from_all_curves_is_told_and_does_not_flatten_them(chance: float, drawn: bool) -> None:
    records = [record for runs in arms().values() for record in runs]
    for record in records:
        record.baselines["loss"] = chance
    shown = section(results_of(records, [], title="t", metric="test_4x/loss", direction="min", baseline="alibi"))
    assert shown is not None and isinstance(shown.parts[0], ReportFigure)
    names = [trace.get("name") for trace in shown.parts[0].forms[()]["data"]]
    assert ("chance" in names) is drawn
    assert ("Chance, 6.200, is off it." in shown.parts[0].caption) is not drawn
