"""Curves over the number of training rows: which arms make one, and what stands in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import t

from headtohead.comparison.comparison_results import ArmResult, ComparisonResults, RunResult
from headtohead.comparison.report import report
from headtohead.comparison.report.sections.training_rows import over_rows, section
from headtohead.records.record import RunRecord
from sample_comparison import made_up

MODEL = {"model": {"_target_": "any.DecoderOnly"}}
MODELS = {
    "scratch": ("any.DecoderOnly", None),
    "tuned": ("any.DecoderOnly", "run:somewhere"),
    "words": ("any.BagOfWords", None),
}


def arm_of(name: str, values: list[float], config: dict[str, Any], num_rows: int | None = None) -> ArmResult:
    """`num_rows` is what the record notes of how many the run learned from."""
    runs = []
    data = {} if num_rows is None else {"train_rows": num_rows}
    for seed, value in enumerate(values):
        own = {**config, "seed": seed, "init_from": config["init_from"] and f"{config['init_from']}/{seed}"}
        record = RunRecord(id=f"{name}-{seed}", name=name, status="finished", seed=seed, config=own, data=data)
        runs.append(RunResult(name, seed, "finished", value=value, record=record))
    return ArmResult(name, tuple(runs))


@pytest.fixture
def findings(tmp_path: Path) -> ComparisonResults:
    arms = [
        arm_of(
            f"{family}_{rows}",
            [0.5 + position / 10, 0.6 + position / 10],
            {
                "model": {"_target_": model},
                "init_from": start,
                "trainer": {"max_steps": 50, "train_rows": rows},
            },
        )
        for family, (model, start) in MODELS.items()
        for position, rows in enumerate((1000, 100))
    ]
    tuned = {**MODEL, "init_from": "run:somewhere", "trainer": {"max_steps": 50, "train_rows": None}}
    arms.append(arm_of("tuned_on_all", [0.8, 0.9], tuned, 7000))
    untrained = {**MODEL, "init_from": "run:x", "trainer": {"max_steps": 0, "train_rows": None}}
    whole = {
        "model": {"_target_": "any.Recurrent"},
        "init_from": None,
        "trainer": {"max_steps": 50, "train_rows": None},
    }
    few = {**untrained, "trainer": {"max_steps": 0, "train_rows": 100}}
    arms += [arm_of("zero_shot", [0.4, 0.5], untrained, 7000), arm_of("four_shot", [0.6, 0.7], few, 100)]
    arms += [arm_of("other", [0.9, 0.9], whole, 7000), arm_of("of_old", [0.1, 0.1], whole)]
    result = replace(made_up(tmp_path), metric="test/accuracy", direction="max", arms=tuple(arms), verdicts=())
    return replace(result, baseline="scratch_100")


LEVELS = ["zero_shot", "four_shot"]


def test_arms_that_differ_in_nothing_but_their_rows_make_a_curve(findings: ComparisonResults) -> None:
    curves = {curve.name: curve for curve in over_rows(findings)}
    assert list(curves) == [*MODELS, "other", *LEVELS], "an arm whose number of rows nobody noted has no place"
    for name in MODELS:
        points = curves[name].points[:2]
        assert [point.rows for point in points] == [100, 1000]
        assert [point.mean for point in points] == pytest.approx([0.65, 0.55])
        half = t.ppf(0.975, 1) * 0.1 / 2**0.5 / 2**0.5
        assert points[0].interval == pytest.approx((0.65 - half, min(1.0, 0.65 + half)))


def test_arms_on_all_rows_stand_at_their_number(findings: ComparisonResults) -> None:
    curves = {curve.name: curve for curve in over_rows(findings)}
    [last] = curves["tuned"].points[2:]
    assert (last.rows, last.arm, last.mean) == (7000, "tuned_on_all", pytest.approx(0.85))
    assert [(point.rows, point.mean) for point in curves["other"].points] == [(7000, pytest.approx(0.9))]


def test_arms_that_learned_nothing_are_levels_whatever_rows_they_were_given(findings: ComparisonResults) -> None:
    curves = {curve.name: curve for curve in over_rows(findings)}
    assert [curves[name].level for name in LEVELS] == pytest.approx([0.45, 0.65])
    assert not any(curves[name].points for name in LEVELS)
    fitted = {"model": {"_target_": "any.BagOfWords"}, "init_from": None}
    words = [
        arm_of(f"count_{rows}", [0.5, 0.5], {**fitted, "trainer": {"max_steps": 0, "train_rows": rows}})
        for rows in (100, 1000)
    ]
    result = {curve.name: curve for curve in over_rows(replace(findings, arms=tuple(words)))}
    assert [point.rows for point in result["count"].points] == [100, 1000], "it is fitted without steps"


def test_rows_are_no_question_where_all_arms_have_as_many(findings: ComparisonResults) -> None:
    alike = tuple(arm for arm in findings.arms if arm.name in ("tuned_on_all", "other", "zero_shot"))
    assert over_rows(replace(findings, arms=alike)) == [] and section(replace(findings, arms=alike)) is None


def test_a_difference_besides_the_rows_breaks_a_curve(findings: ComparisonResults) -> None:
    first = findings.arms[0]
    changed = tuple(
        replace(run, record=replace(run.record, config={**run.record.config, "optimizer": {"lr": 1}}))
        for run in first.runs
        if run.record is not None
    )
    broken = replace(findings, arms=(replace(first, runs=changed), *findings.arms[1:]))
    names = [curve.name for curve in over_rows(broken)]
    assert names == ["scratch_1000", "scratch_100", "tuned", "words", "other", *LEVELS]


def test_arms_that_start_from_other_runs_are_on_other_curves(findings: ComparisonResults) -> None:
    """Foundations of a study lie in folders that are named by their content, one for each seed."""
    others = [
        arm_of(
            f"elsewhere_{rows}",
            [0.2, 0.3],
            {**MODEL, "init_from": "run:other", "trainer": {"max_steps": 50, "train_rows": rows}},
        )
        for rows in (100, 1000)
    ]
    curves = {curve.name: curve for curve in over_rows(replace(findings, arms=(*findings.arms, *others)))}
    assert list(curves) == [*MODELS, "other", "elsewhere", *LEVELS]
    assert [point.arm for point in curves["tuned"].points] == ["tuned_100", "tuned_1000", "tuned_on_all"]
    assert [point.mean for point in curves["elsewhere"].points] == pytest.approx([0.25, 0.25])


@pytest.mark.slow
def test_the_section_is_there_only_where_rows_are_a_question(findings: ComparisonResults, tmp_path: Path) -> None:
    assert section(made_up(tmp_path / "other")) is None
    text = report(findings)
    assert "Over training rows" in text and "zero_shot" in text
