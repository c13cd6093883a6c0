"""The report as text: what is left out, what is told, and what must never be in it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headtohead.comparison.arm_colours import NUM_COLOURS, colour_slots, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report import report
from headtohead.comparison.report.html_renderer import HtmlRenderer
from headtohead.comparison.report.map_pictures import HeatMap, picture_of, shared_scale
from headtohead.comparison.report.plotly_figures import plain_figure
from headtohead.comparison.report.section_parts import Picture, PictureGrid, ReportFigure, Stacked, figure
from headtohead.comparison.report.sections import SECTIONS
from headtohead.comparison.report.sections.attention_maps import section as maps
from headtohead.comparison.report.sections.curves import curves_of, mean_of
from headtohead.comparison.report.sections.curves import section as curves
from headtohead.comparison.report.sections.pareto import section as pareto
from headtohead.records.record import Progress
from prose_of_pages import hyphened, prose_of
from sample_comparison import ENDS, made_up


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return made_up(tmp_path_factory.mktemp("runs"))


def text_of(findings: ComparisonResults) -> str:
    """Return the page's text without Plotly's source."""
    head, _, rest = report(findings).partition("<script>/**")
    return head + rest.rpartition("</script>\n<script>")[2]


def test_negative_numbers_have_a_minus_in_the_page_and_a_hyphen_in_json(findings: ComparisonResults) -> None:
    assert any(verdict.difference is not None and verdict.difference < 0 for verdict in findings.verdicts)
    page = text_of(findings)
    prose = prose_of(page.partition("<noscript>")[0])
    assert "−" in "".join(prose) and hyphened(prose) == []
    content = json.loads(page.rpartition('<script type="application/json" id="content">')[2].partition("</script>")[0])
    assert hyphened(list(texts_in(content["figures"]))) == []
    plain = json.dumps(findings.to_dict(), ensure_ascii=False)
    assert "−" not in plain and hyphened([plain])


def texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        yield from (text for one in (value.values() if isinstance(value, dict) else value) for text in texts_in(one))


@pytest.mark.slow
def test_a_report_of_twenty_runs_is_made_in_less_than_three_seconds(findings: ComparisonResults) -> None:
    assert len(findings.runs) == 20
    began = time.process_time()
    report(findings)
    assert time.process_time() - began < 3


def test_findings_are_valid_json_with_every_record(findings: ComparisonResults) -> None:
    again = json.loads(json.dumps(findings.to_dict()))
    assert [arm["name"] for arm in again["arms"]] == list(ENDS)
    assert again["arms"][0]["runs"][0]["record"]["place"]["arm"] == "layer_norm"


def test_a_run_that_diverged_and_one_that_is_missing_are_both_told(findings: ComparisonResults) -> None:
    text = text_of(findings)
    assert "the loss is not a number since step 100" in text
    assert "missing" in text
    assert "h2h train model/norm=rms_norm seed=3" in text


def test_comparisons_without_folders_have_no_curves_and_no_maps(findings: ComparisonResults) -> None:
    arms = [
        replace(
            arm,
            runs=tuple(replace(run, record=run.record and replace(run.record, path=None)) for run in arm.runs),
        )
        for arm in findings.arms
    ]
    bare = replace(findings, arms=tuple(arms), question=None, hypothesis=None, command=None)
    anchors = [result.anchor for section in SECTIONS if (result := section(bare))]
    assert anchors[:3] == ["verdict", "arms", "differences"]
    assert not {"curves", "maps"} & set(anchors)
    assert "<h1>norms</h1>" in report(bare)


def test_the_mean_of_an_arm_is_taken_over_finished_seeds_at_common_steps(findings: ComparisonResults) -> None:
    result = curves_of(findings)
    runs = [c for c in result if (c.arm, c.name) == ("no_norm", "train/loss") and c.finished]
    mean = mean_of(result, "no_norm", "train/loss")
    assert mean is not None
    assert len(runs) == 3
    assert mean.values[-1] == pytest.approx(sum(run.values[-1] for run in runs) / 3)


def test_arms_keep_a_look_of_their_own_however_many_there_are(findings: ComparisonResults) -> None:
    arms = tuple(replace(findings.arms[0], name=f"arm{n}") for n in range(30))
    looks = styles_of(replace(findings, arms=arms, baseline="arm3"))
    assert len(set(looks.values())) == 30
    slots = colour_slots(looks)
    assert all(look.colour == f"--arm-{slots[name] % NUM_COLOURS}" for name, look in looks.items())
    assert next(iter(looks)) == "arm3", "the baseline comes first"


def test_an_arm_looks_alike_in_whatever_order_arms_are_listed(findings: ComparisonResults) -> None:
    arms = tuple(replace(findings.arms[0], name=name) for name in ("post", "none", "pre", "rms"))
    looks = [styles_of(replace(findings, arms=order, baseline="pre")) for order in (arms, arms[::-1])]
    assert looks[0] == looks[1]


@pytest.mark.slow
def test_many_verdicts_are_lines_of_a_table_and_what_makes_all_exploratory_is_told_once(tmp_path: Path) -> None:
    result = made_up(tmp_path, {f"arm{n}": 2.0 + n for n in range(10)}, num_seeds=3, steps=4, maps=False)
    unregistered = [replace(v, exploratory=True, reasons=("nothing was registered",)) for v in result.verdicts]
    text = text_of(replace(result, verdicts=tuple(unregistered)))
    assert text.count("nothing was registered") == 1
    assert "<article" not in text
    assert text.count('class="badge worse"') >= 2 * 8


def test_an_arm_that_is_dearer_and_no_better_is_not_on_the_front(findings: ComparisonResults) -> None:
    shown = pareto(findings)
    assert shown is not None
    (drawn,) = shown.parts
    assert isinstance(drawn, ReportFigure)
    assert list(drawn.forms) == [("parameters",)]
    assert "All arms have the same FLOPs, time, memory and state." in drawn.caption
    front = drawn.forms[("parameters",)]["data"][0]
    sizes = [findings.arm(name).records[0].costs["totals"]["parameters"] for name in ("no_norm", "rms_norm")]
    assert front["x"] == sizes


def test_maps_of_the_arms_stand_side_by_side_layer_by_layer(findings: ComparisonResults) -> None:
    shown = maps(findings)
    assert shown is not None
    grid = shown.parts[0]
    assert isinstance(grid, PictureGrid)
    assert [heading.text for heading, _ in grid.rows] == ["layer 1", "layer 2"]
    first = grid.rows[0][1][0]
    assert not isinstance(first, str)
    picture = Image.open(io.BytesIO(first[0].png)).convert("RGBA")
    assert picture.size == (24, 24)
    assert picture.getpixel((23, 0))[3] == 0, "what a query may not see lets the page through"
    assert picture.getpixel((0, 23))[3] == 255


def test_maps_that_are_compared_share_one_scale_that_no_first_row_sets() -> None:
    causal = np.where(np.tri(32, dtype=bool), 1 / np.arange(1, 33)[:, None], np.nan)
    strong = HeatMap(0, "attention", np.where(np.isnan(causal), np.nan, 2 * causal).clip(max=1.0))
    weak = HeatMap(0, "attention", causal)
    scale = shared_scale([weak, strong])
    assert 2 / 32 < scale.high <= 2 / 9 and scale.clipped, "the first queries have 1 key, 2 keys ..."
    shades = [np.array(Image.open(io.BytesIO(picture_of(one, scale)))).astype(int) for one in (weak, strong)]
    assert shades[0][31, 0] * 2 == pytest.approx(shades[1][31, 0], abs=2)


def test_the_first_tokens_of_a_map_are_named() -> None:
    one = HeatMap(0, "attention", np.eye(4), ("a", "<b>", "c", "d"), ("a", "<b>", "c", "d")).start(2)
    tile = Picture(picture_of(one, shared_scale([one])), "head 1", "head 1", one.queries, one.keys)
    text = HtmlRenderer({}).part(PictureGrid(["arm"], [(Stacked("layer 1", "0 to 1"), [[tile]])], "Maps."))
    assert text.count("&lt;b&gt;") == 2 and ">c<" not in text


def test_where_no_run_kept_maps_the_reason_stands_in_their_place(tmp_path: Path) -> None:
    result = made_up(tmp_path, {"a": 2.0, "b": 2.5}, num_seeds=3, steps=4, maps=False)
    settings = {"a": {"at_end": False, "every": None, "raw": True}, "b": {"at_end": True, "every": None, "raw": False}}
    for run in result.runs:
        if run.record is not None:
            run.record.config["probe"] = settings[run.arm]
    shown = maps(replace(result, arms=result.arms[:1]))
    assert shown is not None and "its runs were not probed (probe=none" in str(shown.parts[0])
    both = maps(result)
    assert both is not None and "b: its runs saved only pictures (probe.raw=false" in str(both.parts[0])


def test_a_command_that_makes_no_runs_does_not_speak_of_going_on(findings: ComparisonResults) -> None:
    assert "or resume it" not in text_of(replace(findings, command="h2h compare outputs"))
    assert "or resume it" in text_of(replace(findings, resumes=True))


def test_a_matching_tells_what_was_moved_and_what_therefore_differs(findings: ComparisonResults) -> None:
    moved = {"overrides": ["model.d_model=72"], "achieved": 10_900.0, "residual": -0.009, "met": True, "reason": ""}
    as_written = {**moved, "overrides": [], "achieved": 11_000.0, "residual": 0.0, "differs": {}}
    matching = {
        "budget": {"figure": "parameters", "tolerance": 0.02},
        "baseline": "layer_norm",
        "target": 11_000.0,
        "met": True,
        "arms": {"layer_norm": as_written, "rms_norm": {**moved, "differs": {"flops": 1.3}}},
    }
    text = text_of(replace(findings, matching=matching))
    assert "model.d_model=72" in text
    assert "−0.9&nbsp;%" in text
    assert "FLOPs × 1.3" in text


def test_secrets_in_a_configuration_are_masked(findings: ComparisonResults) -> None:
    (first, *others) = findings.arms
    record = first.records[0]
    message = replace(record, config={**record.config, "tracking": {"api_key": "hunter2"}})
    runs = (replace(first.runs[0], record=message), *first.runs[1:])
    assert "hunter2" not in text_of(replace(findings, arms=(replace(first, runs=runs), *others)))


def test_markup_in_a_figure_is_shown_as_text() -> None:
    form = {"data": [{"x": ["<a href='x'>b</a>"], "y": [float("nan")], "hovertemplate": "<b>%{x}</b>"}], "layout": {}}
    (drawn,) = plain_figure(figure(form, "caption"))["forms"]
    assert drawn["data"] == [{"x": ["&lt;a href='x'&gt;b&lt;/a&gt;"], "y": [None], "hovertemplate": "<b>%{x}</b>"}]


def test_lines_do_not_break_within_a_figure(findings: ComparisonResults) -> None:
    text = text_of(findings)
    assert "95&nbsp;% interval" in text and "95 % interval" not in text
    assert "p&nbsp;&lt;&nbsp;0.001" in text


def test_costs_that_no_arm_tells_have_no_column(tmp_path: Path) -> None:
    result = made_up(tmp_path, {"a": 2.0, "b": 2.5}, num_seeds=3, steps=4, maps=False)
    for run in result.runs:
        if run.record is not None:
            run.record.costs, run.record.throughput, run.record.progress = {}, {}, Progress()
    text = text_of(result)
    assert "tokens/s" not in text and "parameters</th>" not in text and "What each arm used" not in text
    assert "tokens/s" in text_of(made_up(tmp_path / "told", {"a": 2.0, "b": 2.5}, num_seeds=2, steps=4, maps=False))


def test_a_long_name_is_short_in_a_figure_and_whole_in_tables(tmp_path: Path) -> None:
    name = "a" * 60 + "z"
    result = made_up(tmp_path, {"base": 2.0, name: 2.5}, num_seeds=3, steps=4, maps=False)
    legend = [trace["name"] for trace in json.loads(json.dumps(plain_figure(drawn_curves(result))))["forms"][0]["data"]]
    assert max(map(len, legend)) <= 35 and any(one.endswith("aaz") for one in legend)
    assert f"{name}</span>" in text_of(result)


def test_names_of_classes_and_kernels_are_words_that_fit_a_page(tmp_path: Path) -> None:
    result = made_up(tmp_path, {"a": 2.0, "b": 2.5}, num_seeds=2, steps=4, maps=False)
    for run in result.runs:
        if run.record is not None:
            run.record.config["model"]["mixer"] = {"_target_": f"package.mixers.of_{run.arm}.Mixer"}
            run.record.environment.device = {"type": "cpu", "kernels": {"stack.0": "fused", "stack.1": "fused"}}
    text = text_of(result)
    assert "<code>package.<wbr>mixers.<wbr>of_b.<wbr>Mixer</code>" in text
    assert "type cpu, kernels fused (2 layers)" in text


def drawn_curves(findings: ComparisonResults) -> ReportFigure:
    shown = curves(findings)
    assert shown is not None and isinstance(shown.parts[0], ReportFigure)
    return shown.parts[0]


@pytest.mark.slow
def test_configurations_of_many_arms_are_told_by_value(tmp_path: Path) -> None:
    result = made_up(tmp_path, {f"arm{n}": 2.0 + n for n in range(9)}, num_seeds=2, steps=4, maps=False)
    for arm in result.arms:
        for record in arm.records:
            record.config["model"]["layers"] = 4 if arm.name in ("arm3", "arm5") else 2
    text = text_of(result)
    assert '<td class="wide">4 of arm3, arm5</td>' in text
    assert "Arms that are not named are like the baseline." in text


def test_a_file_of_maps_that_was_cut_off_is_named_where_its_map_would_be(tmp_path: Path) -> None:
    result = made_up(tmp_path, {"a": 2.0, "b": 2.5}, num_seeds=3, steps=4)
    for file in tmp_path.rglob("*.npz"):
        file.write_bytes(b"" if file.name == "stack.1.mixer.npz" else file.read_bytes()[:40])
    text = text_of(result)
    assert "stack.0.mixer.npz cannot be read" in text and "stack.1.mixer.npz cannot be read" in text


def test_a_run_whose_curve_was_spoiled_is_named_and_costs_no_report(tmp_path: Path) -> None:
    result = made_up(tmp_path, {"a": 2.0, "b": 2.5}, num_seeds=3, steps=8, maps=False)
    record = result.arm("a").records[1]
    assert record.path is not None
    (record.path / "metrics.csv").write_bytes(bytes(200) + b"\n")
    assert drawn_curves(result).caption.endswith("The logs of these runs cannot be read: a, seed 1.")


def test_legends_name_the_arms_in_one_order(findings: ComparisonResults) -> None:
    order = [arm.name for arm in findings.arms]
    assert order != sorted(order), "else any order would do"
    parts = [part for section in SECTIONS if (result := section(findings)) for part in result.parts]
    legends = [
        named
        for part in parts
        if isinstance(part, ReportFigure)
        for form in part.forms.values()
        if len(named := legend_of(form, order)) > 1
    ]
    assert len(legends) > 5
    assert all(named == [name for name in order if name in named] for named in legends)


def legend_of(form: dict[str, list[dict[str, Any]]], arms: list[str]) -> list[str]:
    """Return the arms that a form's legend names, from the first to the last."""
    shown = [trace for trace in form["data"] if trace.get("name") in arms and trace.get("showlegend") is not False]
    return [trace["name"] for trace in sorted(shown, key=lambda trace: int(trace.get("legendrank", 1000)))]
