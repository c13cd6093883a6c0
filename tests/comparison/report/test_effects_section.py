"""The report's words and figures about the factors of an ablation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headtohead.comparison.analyses.effects import Effects, EffectSettings, Factors, effects_of
from headtohead.comparison.analyses.effects_text import certainty, effects_table
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.section_parts import ReportFigure, ReportTable, ReportText, Section
from headtohead.comparison.report.sections.effects import section

LEVELS = {"norm": ("layer", "rms"), "residual": ("pre", "post")}
ARMS = {
    "layer+pre": {"norm": "layer", "residual": "pre"},
    "layer+post": {"norm": "layer", "residual": "post"},
    "rms+pre": {"norm": "rms", "residual": "pre"},
}
VALUES = {
    "layer+pre": {0: 1.0, 1: 2.0, 2: 3.0},
    "layer+post": {0: 1.50, 1: 2.51, 2: 3.49},
    "rms+pre": {0: 1.01, 1: 1.99, 2: 3.0},
}
READING = EffectSettings("test/loss", "min")


def three_cells() -> Effects:
    return effects_of(Factors(LEVELS, ARMS), VALUES, READING)


def shown(effects: Effects | None, left_out: tuple[tuple[str, str], ...] = ()) -> Section | None:
    findings = ComparisonResults("small", "test/loss", "min", "layer+pre", (), ())
    return section(replace(findings, effects=effects, left_out=left_out))


def test_a_comparison_without_factors_has_no_such_section() -> None:
    assert shown(None) is None


def test_a_combination_that_was_left_out_stands_there_with_its_reason() -> None:
    result = shown(three_cells(), (("rms+post", "<b>cannot</b> be"),))
    assert result is not None
    tables = [part for part in result.parts if isinstance(part, ReportTable)]
    assert tables[-1].rows == [["rms+post", "<b>cannot</b> be"]]
    figures = [part for part in result.parts if isinstance(part, ReportFigure)]
    assert [len(figure.forms) for figure in figures] == [1, 1]


def test_a_cell_without_runs_leaves_a_gap_in_the_lines() -> None:
    result = shown(three_cells())
    assert result is not None
    lines = [part for part in result.parts if isinstance(part, ReportFigure)][1].forms[()]["data"]
    assert [line["y"] for line in lines] == [[2.0, 2.0], [2.5, None]]
    assert [line["error_y"]["array"] for line in lines] == [[1.0, 1.0], [pytest.approx(0.99), 0.0]]


@pytest.mark.parametrize(
    ("levels", "drawn"), [(("w64", "w8", "w16"), ["w8", "w16", "w64"]), (("fp32", "bf16"), ["fp32", "bf16"])]
)
def test_sizes_are_drawn_in_their_order_whichever_is_the_base(levels: tuple[str, ...], drawn: list[str]) -> None:
    factors = {"width": levels, "residual": ("pre", "post")}
    arms = {f"{one}+{other}": {"width": one, "residual": other} for one in levels for other in ("pre", "post")}
    results = effects_of(Factors(factors, arms), {arm: {0: 1.0, 1: 2.0} for arm in arms}, READING)
    result = shown(results)
    assert result is not None
    figures = [part for part in result.parts if isinstance(part, ReportFigure)]
    assert all(line["x"] == drawn for line in figures[-1].forms[()]["data"])


def test_what_an_effect_assumes_or_hides_behind_is_said() -> None:
    norm, residual, both = three_cells().effects
    assert certainty(norm) == "undecided, if norm=rms x residual=post is zero"
    assert certainty(residual) == "worse, if norm=rms x residual=post is zero"
    assert certainty(both) == "not estimable: aliased with norm=rms and residual=post"
    assert effects_table(three_cells()).row_count == 3


def test_one_factor_at_a_time_draws_no_lines_for_what_was_not_asked() -> None:
    result = shown(effects_of(Factors(LEVELS, ARMS, crossed=False), VALUES, READING))
    assert result is not None
    assert len([part for part in result.parts if isinstance(part, ReportFigure)]) == 1
    first = result.parts[0]
    assert isinstance(first, ReportText) and "what factors do together was not asked" in first.text
