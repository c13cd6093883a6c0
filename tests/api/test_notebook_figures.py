"""Figures of results are seen in a notebook, and where it is exported to a page without scripts."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headtohead.api.comparing import figure_of, report_figures
from headtohead.api.drawn_figure import drawn
from headtohead.api.reported_figure import ReportedFigure
from headtohead.api.run_lists import runs
from headtohead.api.training import TrainedRun
from headtohead.comparison.analyses.ability_scores import AbilityScore, AbilityScores
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from sample_comparison import ENDS, made_up


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return made_up(tmp_path_factory.mktemp("runs"), maps=False)


@pytest.mark.slow
def test_every_figure_of_a_report_has_a_drawing_that_names_its_arms(results: ComparisonResults) -> None:
    for section in report_figures(results):
        picture = figure_of(results, section, ())._repr_mimebundle_()["image/svg+xml"]
        assert "<script" not in picture and picture.count("<path") > 5, section
        assert [arm for arm in ENDS if arm not in picture] in ([], ["layer_norm"]), f"{section}: the baseline may lack"


@pytest.mark.slow
def test_a_drawing_has_the_numbers_of_its_figure(results: ComparisonResults) -> None:
    figure = figure_of(results, "curves", ()).to_plotly_json()
    (axes,) = drawn(figure["data"], figure["layout"]).axes
    assert [list(line.get_xdata()) for line in axes.lines] == [list(trace["x"]) for trace in figure["data"]]
    assert [list(line.get_ydata()) for line in axes.lines] == [list(trace["y"]) for trace in figure["data"]]


def test_a_heat_map_is_drawn_with_a_number_in_each_cell_that_is_known() -> None:
    cells = [
        AbilityScore("gru", "copying", 0.2, 0.1, 0.3, 0.28, 0.1, 2),
        AbilityScore("gpt", "recall", 1.0, 1.0, 1.0, 1.0, 0.5, 1),
    ]
    scores = AbilityScores(("gru", "gpt"), ("copying", "recall"), tuple(cells), "test/accuracy")
    bare = ComparisonResults("mad", "test/accuracy", "max", "gpt+recall", (), ())
    figure = figure_of(replace(bare, abilities=scores), "abilities", ()).to_plotly_json()
    (axes,) = drawn(figure["data"], figure["layout"]).axes
    assert sorted(text.get_text() for text in axes.texts) == ["0.20", "1.00"]


def test_a_notebook_gets_the_drawing_beside_what_plotly_sends(
    results: ComparisonResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    import plotly.io

    sent: list[dict[str, Any]] = []

    def display(shown: dict[str, Any], *, raw: bool) -> None:
        assert raw
        sent.append(shown)

    module = ModuleType("IPython.display")
    monkeypatch.setattr(module, "display", display, raising=False)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")
    figure_of(results, "differences", ())._ipython_display_()
    assert [sorted(shown) for shown in sent] == [["application/vnd.plotly.v1+json", "image/svg+xml"]]


@pytest.mark.slow
def test_a_console_names_what_a_figure_shows_in_one_line(results: ComparisonResults) -> None:
    for section in report_figures(results):
        shown = repr(figure_of(results, section, ()))
        assert len(shown) < 200 and "\n" not in shown, section
    assert all(arm in repr(figure_of(results, "curves", ())) for arm in ENDS)


def test_a_figure_of_many_arms_names_a_few_of_them() -> None:
    names = [f"arm number {number} of a study with long names" for number in range(40)]
    shown = repr(ReportedFigure(data=[{"type": "scatter", "name": name} for name in names]))
    assert len(shown) < 200 and re.search(r"study with long names and 3\d more: ", shown)


def test_the_curves_of_a_run_show_themselves(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, name="tiny", group="some")
    folder.write_record(RunRecord(id=folder.id, name="tiny", status="finished"))
    for step in (1, 2, 3):
        folder.log(Progress(step, 0, 10 * step, 1e6, 0.5), {"train/loss": 4.0 / step})
    run = TrainedRun(id=folder.id, path=folder.path)
    assert re.search(r"optimizer steps.*train/loss", run.plot()._repr_svg_(), re.DOTALL)


def test_runs_are_a_list_that_shows_itself_as_a_table(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = RunFolder.create(tmp_path, name=name, group="some")
        folder.write_record(RunRecord(id=folder.id, name=name, status="finished"))
    result = runs(tmp_path, sort="name")
    assert [run.name for run in result[:1]] == ["one"] and result == list(result)
    assert repr(result).splitlines()[0] == "2 runs" and len(repr(result)) < 600
    assert result._repr_html_().count("<tr>") == 3 and list(result.to_frame()["name"]) == ["one", "two"]
