"""Curves over the number of training rows: which arms make one, and what stands in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import t

from found_runs import made_up
from headtohead.comparing.findings import Findings, Found, FoundArm
from headtohead.comparing.over_rows import over_rows
from headtohead.comparing.report import report
from headtohead.comparing.report.sections.rows import section
from headtohead.tracking.record import RunRecord

MODELS = {
    "scratch": ("decoder_only", None),
    "tuned": ("decoder_only", "run:somewhere"),
    "words": ("bag_of_words", None),
}


def arm_of(name: str, values: list[float], config: dict[str, Any]) -> FoundArm:
    runs = []
    for seed, value in enumerate(values):
        own = {**config, "seed": seed, "init_from": config["init_from"] and f"{config['init_from']}/{seed}"}
        record = RunRecord(id=f"{name}-{seed}", name=name, status="finished", seed=seed, config=own)
        runs.append(Found(name, seed, "finished", value=value, record=record))
    return FoundArm(name, tuple(runs))


@pytest.fixture
def findings(tmp_path: Path) -> Findings:
    arms = [
        arm_of(
            f"{family}_{rows}",
            [0.5 + place / 10, 0.6 + place / 10],
            {"model": model, "init_from": start, "trainer": {"max_steps": 50, "train_rows": rows}},
        )
        for family, (model, start) in MODELS.items()
        for place, rows in enumerate((1000, 100))
    ]
    untrained = {"model": "decoder_only", "init_from": "run:x", "trainer": {"max_steps": 0, "train_rows": None}}
    whole = {"model": "decoder_only", "init_from": None, "trainer": {"max_steps": 50, "train_rows": None}}
    arms += [arm_of("zero_shot", [0.4, 0.5], untrained), arm_of("all_rows", [0.9, 0.9], whole)]
    found = replace(made_up(tmp_path), metric="test/accuracy", direction="max", arms=tuple(arms), verdicts=())
    return replace(found, baseline="scratch_100")


def test_arms_that_differ_in_nothing_but_their_rows_make_a_curve(findings: Findings) -> None:
    curves = {curve.name: curve for curve in over_rows(findings)}
    assert list(curves) == [*MODELS, "zero_shot"], "an arm on all rows is on no curve"
    for name in MODELS:
        assert [point.rows for point in curves[name].points] == [100, 1000]
        assert [point.mean for point in curves[name].points] == pytest.approx([0.65, 0.55])
        half = t.ppf(0.975, 1) * 0.1 / 2**0.5 / 2**0.5
        assert curves[name].points[0].interval == pytest.approx((0.65 - half, 0.65 + half))
    assert curves["zero_shot"].mean == pytest.approx(0.45)


def test_a_difference_besides_the_rows_breaks_a_curve(findings: Findings) -> None:
    first = findings.arms[0]
    changed = tuple(
        replace(run, record=replace(run.record, config={**run.record.config, "optimizer": {"lr": 1}}))
        for run in first.runs
        if run.record is not None
    )
    broken = replace(findings, arms=(replace(first, runs=changed), *findings.arms[1:]))
    assert [curve.name for curve in over_rows(broken)] == ["tuned", "words", "zero_shot"]


def test_arms_that_start_from_other_runs_are_on_other_curves(findings: Findings) -> None:
    """Foundations of a study lie in folders that are named by their content, one for each seed."""
    others = [
        arm_of(
            f"elsewhere_{rows}",
            [0.2, 0.3],
            {"model": "decoder_only", "init_from": "run:other", "trainer": {"max_steps": 50, "train_rows": rows}},
        )
        for rows in (100, 1000)
    ]
    curves = {curve.name: curve for curve in over_rows(replace(findings, arms=(*findings.arms, *others)))}
    assert list(curves) == [*MODELS, "elsewhere", "zero_shot"]
    assert [point.arm for point in curves["tuned"].points] == ["tuned_100", "tuned_1000"]
    assert [point.mean for point in curves["elsewhere"].points] == pytest.approx([0.25, 0.25])


def test_the_section_is_there_only_where_rows_are_a_question(findings: Findings, tmp_path: Path) -> None:
    assert section(made_up(tmp_path / "other")) is None
    text = report(findings)
    assert "Over training rows" in text and "zero_shot" in text
