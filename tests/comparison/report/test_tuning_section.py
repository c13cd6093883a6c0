"""The section on tuning shows every trial, the best of each arm, and what did not finish beyond the worst value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from headtohead.comparison.analyses.trials import Setting, Space, Trial, ValueChoices, ValueRange
from headtohead.comparison.analyses.tuning_summary import TuningDesign, tuning_summary
from headtohead.comparison.comparison_results import ArmResult, ComparisonResults
from headtohead.comparison.report.page import page
from headtohead.comparison.report.section_parts import ReportFigure, ReportText
from headtohead.comparison.report.sections.tuning import section
from headtohead.comparison.tables.run_table import number

RATES = (1e-4, 1e-3, 1e-2)
SPACE: Space = {"optimizer.lr": ValueChoices(RATES)}


def findings_of(
    values: Mapping[str, tuple[float | None, ...]], space: Space = SPACE, direction: Literal["min", "max"] = "min"
) -> ComparisonResults:
    design = TuningDesign("grid", 3, "validation/loss", direction, seed=1000)
    fields = [(("optimizer.lr", rate), ("schedule", name)) for rate, name in zip(RATES, "abc", strict=True)]
    tried = {
        arm: (
            space,
            [
                Trial(number, Setting(pair[: len(space)]), "diverged" if value is None else "finished", value)
                for number, (pair, value) in enumerate(zip(fields, result, strict=False))
            ],
        )
        for arm, result in values.items()
    }
    arms = tuple(ArmResult(arm, ()) for arm in values)
    return ComparisonResults(
        "s", "test/loss", direction, next(iter(values)), arms, (), tuning=tuning_summary(design, tried)
    )


def figures_of(findings: ComparisonResults) -> list[ReportFigure]:
    shown = section(findings)
    assert shown is not None
    return [part for part in shown.parts if isinstance(part, ReportFigure)]


def traces_of(findings: ComparisonResults, arm: str) -> list[dict[str, Any]]:
    return [trace for trace in figures_of(findings)[0].forms[()]["data"] if trace["legendgroup"] == arm]


def test_without_tuning_there_is_no_section() -> None:
    assert section(ComparisonResults("s", "test/loss", "min", "a", (), ())) is None
    assert section(findings_of({"a": (), "b": ()})) is None


@pytest.mark.parametrize(("direction", "best"), [("min", 2.0), ("max", 4.0)])
def test_crosses_stand_beyond_the_worst_value_and_hide_no_other_arms(
    direction: Literal["min", "max"], best: float
) -> None:
    findings = findings_of({"a": (2.0, None, 4.0), "b": (2.5, None, 3.0)}, direction=direction)
    heights = []
    for arm in ("a", "b"):
        values, ring, cross = traces_of(findings, arm)
        assert (values["x"], cross["x"]) == ([1e-4, 1e-2], [1e-3])
        assert len(ring["y"]) == 1
        heights += cross["y"]
        assert all((height > 4.0) == (direction == "min") and not 2.0 <= height <= 4.0 for height in heights)
    assert len(set(heights)) == 2
    assert traces_of(findings, "a")[1]["y"] == [best]


def test_rates_a_decade_apart_are_drawn_on_a_log_axis_and_names_on_one_of_names() -> None:
    assert (
        figures_of(findings_of({"a": (1.0, 2.0, 3.0), "b": (1.0, 2.0, 3.0)}))[0].forms[()]["layout"]["xaxis"]["type"]
        == "log"
    )
    space: Space = {"optimizer.lr": ValueRange(1e-4, 1e-2, "log"), "schedule": ValueChoices(("a", "b", "c"))}
    shown = figures_of(findings_of({"a": (1.0, 2.0, 3.0), "b": (1.0, 2.0, 3.0)}, space))[0]
    types = {options[0]: form["layout"]["xaxis"]["type"] for options, form in shown.forms.items()}
    assert types == {"optimizer.lr": "log", "schedule": "category"}
    assert shown.controls[0].options == ["optimizer.lr", "schedule"]


def test_the_edge_is_warned_of_and_what_is_told_of_arms_is_escaped() -> None:
    findings = findings_of({"<b>a</b>": (1.0, 2.0, None), "b": (3.0, 1.0, 2.0)})
    shown = section(findings)
    assert shown is not None
    warnings = [part.text for part in shown.parts if isinstance(part, ReportText) and part.tone == "warning"]
    assert len(warnings) == 1
    assert "<b>a</b>: the best optimizer.lr, 0.0001, lies on the edge" in warnings[0]
    assert "<b>a</b>" not in page(findings, [shown])


def test_a_curve_of_the_expected_best_begins_where_divergences_cannot_be_all() -> None:
    data = figures_of(findings_of({"a": (2.0, None, 4.0), "b": (2.5, 2.0, 3.0)}))[1].forms[()]["data"]
    assert [curve["y"][0] for curve in data] == [None, 2.5]
    assert [curve["y"][-1] for curve in data] == [2.0, 2.0]


def test_chance_is_drawn_over_settings_and_over_numbers_of_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ComparisonResults, "chance", lambda _, metric: {"validation/loss": 3.0}[metric])
    for shown in figures_of(findings_of({"a": (1.0, 2.0, 4.0), "b": (1.0, 2.5, 3.0)})):
        assert f"The dotted line is chance, {number(3.0)}" in shown.caption
        (line,) = (trace for trace in shown.forms[()]["data"] if trace.get("name") == "chance")
        assert line["y"] == [3.0, 3.0]
