"""The heat map of who can do what: scores by hand, blanks, and where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headtohead.comparison.analyses.ability_scores import AbilityMetric, AbilityScores, ability_scores
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.number_format import hundredths
from headtohead.comparison.report.section_parts import ReportFigure, ReportTable, Stacked
from headtohead.comparison.report.sections.tasks import abilities_section
from headtohead.records.record import RunRecord

CHANCE = {"copying": 0.1, "recall": 0.5}
VALUES = {("gru", "copying"): [0.19, 0.37], ("gru", "recall"): [0.4], ("gpt", "copying"): [1.0], ("gpt", "recall"): []}
DESIGN = {f"{mixer}+{ability}": {"mixer": mixer, "ability": ability} for mixer, ability in VALUES}


def scores(best: float | None = 1.0) -> AbilityScores:
    runs = {
        f"{mixer}+{ability}": [
            RunRecord(
                id=f"{mixer}-{ability}-{seed}",
                status="finished",
                metrics={"test": {"token_accuracy": value}},
                baselines={"token_accuracy": CHANCE[ability]},
            )
            for seed, value in enumerate(values)
        ]
        for (mixer, ability), values in VALUES.items()
    }
    return ability_scores(DESIGN, "ability", runs, AbilityMetric("test/token_accuracy", "max", best))


def results(result: AbilityScores | None) -> ComparisonResults:
    return replace(ComparisonResults("mad", "test/token_accuracy", "max", "gpt+recall", (), ()), abilities=result)


def test_each_ability_has_its_own_chance() -> None:
    result = scores()
    assert result.contestants == ("gru", "gpt") and result.abilities == ("copying", "recall")
    copying, recall = result.of("gru", "copying"), result.of("gru", "recall")
    assert copying is not None and recall is not None
    assert copying.score == pytest.approx(0.2) and (copying.lowest, copying.highest) == pytest.approx((0.1, 0.3))
    assert recall.score == pytest.approx(-0.2) and recall.chance == 0.5
    assert result.mean("gru") == pytest.approx(0.0) and result.mean("gpt") is None
    assert result.ranked == ["gru", "gpt"]


def test_a_cell_without_runs_is_blank_in_picture_and_table() -> None:
    result = abilities_section(results(scores()))
    assert result is not None
    drawn, table = result.parts
    assert isinstance(drawn, ReportFigure) and isinstance(table, ReportTable)
    (trace,) = drawn.forms[()]["data"]
    cells = list(zip(trace["y"], trace["x"], trace["text"], strict=True))
    assert cells == [("gru", "copying", "0.20"), ("gru", "recall", "−0.20"), ("gpt", "copying", "1.00")]
    assert table.rows[0][1] == Stacked("0.20", "0.280\n0.10 to 0.30") and table.rows[1][2] == "–"
    assert [hundredths(score) for score in (-0.004, 0.004, -0.996)] == ["0.00", "0.00", "−1.00"]
    assert table.caption is not None and "copying 0.1, recall 0.5" in table.caption


def test_a_metric_whose_best_is_unknown_has_no_scores() -> None:
    runs = {"gru+copying": [RunRecord(id="a", status="finished", metrics={"test": {"loss": 1.0}})]}
    result = ability_scores(DESIGN, "ability", runs, AbilityMetric("test/loss", "min"))
    assert all(one.score is None for one in result.scores)
    assert abilities_section(results(result)) is None and abilities_section(results(None)) is None
