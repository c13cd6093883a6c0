"""A study has one answer, whoever is asked: the study itself, a comparison of its folder, Python, the dashboard, the
report. The runs of every study that ships are made up."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.api import compare
from headtohead.cli import main
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.comparison_results import results_from
from headtohead.comparison.dashboard.live_runs import LiveRuns
from headtohead.comparison.dashboard.study_list import studies
from headtohead.comparison.planned_runs import PLANNED_RUNS
from headtohead.comparison.report.section_parts import VerdictList
from headtohead.comparison.report.sections.answers import section as section_of
from headtohead.comparison.tables.comparison_formats import comparison_csv
from headtohead.comparison.tables.comparison_rows import rows_of
from headtohead.comparison.tables.latex_tables import comparison_latex
from headtohead.comparison.verdicts.verdict_text import coverage
from headtohead.config.compose.choices import choices
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import record_of
from headtohead.records.record import CheckpointSelection, Comparability, Environment, Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.registration import prepare, register
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.report_content import results_from_study
from headtohead.studies.results.study_report import StudyReport, report_of, write
from headtohead.studies.results.wandb_pages import as_markdown

SHIPPED = [choice.name for choice in choices("study")]


def plan_without_models(study: Study, outputs: Path) -> StudyPlan:
    drafts: dict[str, dict[str, Any]] = {
        name: {"trainer": {"max_steps": 4}, "arm": name} for name in (*study.arms, *study.foundations)
    }
    runs = [
        RunSpec(arm, seed, (), {**drafts[arm], "seed": seed}, f"run{position}x{seed}", study.name)
        for seed in study.seeds
        for position, arm in enumerate(study.arms)
    ]
    return StudyPlan(study, tuple(runs), outputs / "studies" / study.name, drafts)


def run_all(plan: StudyPlan, *, seeds: Sequence[int] | None = None) -> None:
    """Write runs as if all were trained: each arm has a mean of its own, and the last arm diverges once."""
    stage, name = plan.study.stage_and_name
    arms = list(plan.study.arms)
    for run in plan.runs:
        if seeds is not None and run.seed not in seeds:
            continue
        chance = np.random.default_rng([run.seed, *run.arm.encode()])
        value = 0.4 + 0.2 * arms.index(run.arm) / len(arms) + 0.01 * float(chance.normal())
        diverged = run.arm == arms[-1] and run.seed == plan.study.seeds[-1] and len(arms) > 2
        folder = RunFolder.create_at(plan.run_folder(run))
        metrics = {"validation": {"other": value}, "test": {"other": 1 - value}}
        metrics.setdefault(stage, {})[name] = value
        record = RunRecord(
            id=folder.id,
            name=run.name,
            status="diverged" if diverged else "finished",
            reason="the loss was nan" if diverged else None,
            seed=run.seed,
            config={**run.config, "name": run.name},
            place=run.place,
            metrics={} if diverged else metrics,
            baselines={name: 0.1},
            selection=CheckpointSelection("other", "max"),
            progress=Progress(step=4, tokens=100, flops=1e6, seconds=1.0),
            comparability=Comparability("d", "t", "e", "x", "mean", "32-true"),
        )
        folder.write_record(record)


def judged(name: str, outputs: Path) -> tuple[StudyPlan, StudyReport]:
    """Registered, run, and written down, as `h2h study` does."""
    plan = plan_without_models(read_study(name), outputs)
    register(plan)
    run_all(plan)
    report = report_of(plan)
    write(report.to_dict(), plan.folder)
    return plan, report


def comparison(path: Path, **options: Any) -> Comparison:
    result = compare([path], **options)
    assert isinstance(result, Comparison)
    return result


MANY_ARMS = ("mixers_2026", "mixers_2026_small")
"""Studies of dozens of arms, which take seconds; the others ask the same."""


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in MANY_ARMS else []) for name in SHIPPED]
)
def test_a_study_has_one_answer_whoever_is_asked(name: str, tmp_path: Path) -> None:
    plan, report = judged(name, tmp_path)
    assert report.verdicts and not any(verdict.exploratory for verdict in report.verdicts)
    from_python = comparison(plan.folder)
    assert tuple(from_python.verdicts) == report.verdicts and not from_python.registered
    assert (
        comparison(plan.folder, against=plan.study.baseline, metric=plan.study.metric).verdicts == from_python.verdicts
    )
    (shown,) = studies(tmp_path.resolve(), LiveRuns(tmp_path).records(tmp_path))
    assert [verdict["answer"] for verdict in shown["verdicts"]] == [verdict.answer for verdict in report.verdicts]
    assert not [remark for remark in shown["remarks"] if remark.startswith("out of date")]
    sentences = [verdict.sentence for verdict in report.verdicts]
    assert [verdict["sentence"] for verdict in shown["verdicts"]] == sentences
    findings = replace(results_from_study(plan, report), scaling=None)
    assert findings.verdicts == report.verdicts
    shown_on_page = [part for part in section_of(findings).parts if isinstance(part, VerdictList)]
    assert len(sentences) > 8 or [tuple(part.verdicts) for part in shown_on_page] == [report.verdicts]


@pytest.fixture
def demo(tmp_path: Path) -> tuple[StudyPlan, StudyReport]:
    return judged("demo", tmp_path)


@pytest.mark.slow
def test_the_command_gives_the_verdicts_that_were_registered(
    demo: tuple[StudyPlan, StudyReport], capsys: pytest.CaptureFixture[str]
) -> None:
    plan, report = demo
    assert main(["compare", str(plan.folder), "--against", "alibi", "--json"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert [verdict["sentence"] for verdict in message["verdicts"]] == [verdict.sentence for verdict in report.verdicts]
    assert main(["compare", str(plan.folder), "--against", "alibi"]) == 0
    assert "xploratory" not in capsys.readouterr().out
    assert main(["compare", str(plan.folder)]) == 0
    assert f"registered: {report.verdicts[0].sentence}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requested", "why"),
    [
        ({"metric": "test/other", "direction": "max"}, "test/other, not test_4x/loss"),
        ({"against": "rotary"}, "against rotary, not alibi"),
        ({"margin": 0.2}, "margin 0.2, not 0.05"),
        ({"direction": "max"}, "direction max, not min"),
        ({"solved_at": 0.3}, "solved at 0.3, not None"),
    ],
)
def test_another_question_is_shown_as_what_it_is_below_the_registered_one(
    demo: tuple[StudyPlan, StudyReport], requested: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, report = demo
    result = comparison(plan.folder, **requested)
    assert result.registered == report.verdicts
    for verdict in result.verdicts:
        assert verdict.exploratory and verdict.reasons[0].startswith("not the registered question of study demo: ")
        assert why in verdict.reasons[0]
    options = [part for key, value in requested.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    against = [] if "against" in requested else ["--against", "alibi"]
    assert main(["compare", str(plan.folder), *against, *options]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.index(f"registered: {report.verdicts[0].sentence}") < out.index("not the registered question")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_run_that_finished_without_a_finite_result_counts_as_diverged_everywhere(
    value: float, demo: tuple[StudyPlan, StudyReport]
) -> None:
    plan, before = demo
    (run,) = (run for run in plan.runs if run.arm == "rotary" and run.seed == 1)
    record = record_of(plan.run_folder(run))
    assert record is not None
    stage, name = plan.study.stage_and_name
    RunFolder(plan.run_folder(run)).write_record(replace(record, metrics={**record.metrics, stage: {name: value}}))
    report = report_of(plan)
    write(report.to_dict(), plan.folder)
    compared = comparison(plan.folder)
    assert tuple(compared.verdicts) == report.verdicts != before.verdicts
    assert next(verdict for verdict in report.verdicts if verdict.arm == "rotary").failures["rotary"] == 1
    (row,) = (row for row in rows_of(compared) if row.arm == "rotary")
    (arm,) = (arm for arm in report.arms if arm.arm == "rotary")
    assert (row.mean, row.interval, row.diverged) == (arm.mean, arm.interval, arm.failures)
    for results in (results_from_study(plan, report), results_from(compared, title="demo")):
        shown = results.arm("rotary")
        assert (shown.values, len(shown.failures)) == (
            [own.value for own in report.runs if own.arm == "rotary" and own.value is not None],
            1,
        )
    (remark,) = (remark for remark in compared.remarks if "without a finite" in remark)
    assert "rotary (seed 1)" in remark and remark in report.remarks


def test_the_history_of_a_question_and_unlike_conditions_are_told_by_a_comparison_too(
    demo: tuple[StudyPlan, StudyReport],
) -> None:
    plan, _ = demo
    for run in plan.runs:
        record = record_of(plan.run_folder(run))
        assert record is not None
        environment = Environment({"torch": "2.9" if run.arm == "alibi" else "2.8"}, "3.11", "Linux", {"type": "cpu"})
        RunFolder(plan.run_folder(run)).write_record(replace(record, environment=environment))
    report = report_of(replace(plan, study=replace(plan.study, hypothesis="Another one.")))
    write(report.to_dict(), plan.folder)
    result = comparison(plan.folder)
    assert tuple(result.unlike) == report.unlike and report.unlike
    remarks = set(report.history.sentences) | set(report.remarks)
    assert report.history.sentences and remarks <= set(result.remarks)
    (shown,) = studies(plan.folder.parent.parent)
    assert remarks <= set(shown["remarks"])


@pytest.mark.slow
def test_a_set_of_its_runs_is_not_what_was_registered(demo: tuple[StudyPlan, StudyReport]) -> None:
    plan, report = demo
    some = [plan.run_folder(run) for run in plan.runs if run.seed != 2]
    result = compare(some, against="alibi")
    assert "without some of the study's runs" in result.verdicts[0].sentence
    assert isinstance(result, Comparison) and result.registered == report.verdicts


def test_a_run_that_ended_after_the_verdict_is_told(tmp_path: Path) -> None:
    plan = plan_without_models(read_study("demo"), tmp_path)
    register(plan)
    run_all(plan, seeds=[0, 1])
    write(report_of(plan).to_dict(), plan.folder)
    assert comparison(plan.folder).verdicts == list(report_of(plan).verdicts), "registered seeds are missing in both"
    run_all(plan, seeds=[2])
    (first, *_) = comparison(plan.folder).verdicts
    message = "runs that ended after the verdict, which h2h study demo updates"
    assert message in first.reasons[0]
    (shown,) = studies(tmp_path.resolve(), LiveRuns(tmp_path).records(tmp_path))
    assert shown["remarks"][0].startswith(f"out of date: {message}")


def test_verdicts_on_an_older_question_than_the_one_started_last_are_told_to_be_so(tmp_path: Path) -> None:
    plan = plan_without_models(read_study("demo"), tmp_path)
    prepare(plan, retry=False)
    run_all(plan, seeds=[0, 1])
    write(report_of(plan).to_dict(), plan.folder)
    (shown,) = studies(tmp_path.resolve(), LiveRuns(tmp_path).records(tmp_path))
    assert not [remark for remark in shown["remarks"] if remark.startswith("out of date")]
    planned = {"registration": "other.json", "since": None, "runs": ["another"]}
    (plan.folder / PLANNED_RUNS).write_text(json.dumps(planned), encoding="utf-8")
    (shown,) = studies(tmp_path.resolve(), LiveRuns(tmp_path).records(tmp_path))
    assert shown["remarks"][0].startswith("out of date: these verdicts answer an older question")


def test_a_registered_study_without_verdict_is_none_that_was_registered(tmp_path: Path) -> None:
    plan = plan_without_models(read_study("demo"), tmp_path)
    register(plan)
    run_all(plan)
    result = comparison(plan.folder, metric="test_4x/loss", against="alibi")
    assert result.verdicts[0].reasons == ("not the registered question: h2h study demo has given no verdict yet",)
    (plan.folder / "verdict.json").write_text("{}", encoding="utf-8")
    assert comparison(plan.folder, metric="test_4x/loss", against="alibi").verdicts == result.verdicts


LEVELS: dict[str, dict[str, Any]] = {
    "the usual error rate": {},
    "a small error rate": {"alpha": 0.01},
    "a large error rate": {"alpha": 0.2},
    "interim analyses": {"looks": (2, 3)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVELS)
def test_an_interval_is_the_same_wherever_it_is_shown_and_its_level_is_named(name: str, tmp_path: Path) -> None:
    """The study's own tables, a comparison as data, CSV and LaTeX, the report and the page in W&B."""
    study = replace(read_study("demo"), seeds=(0, 1, 2), **LEVELS[name])
    plan = plan_without_models(study, tmp_path)
    register(plan)
    run_all(plan)
    report = report_of(plan)
    write(report.to_dict(), plan.folder)
    intervals = {arm.arm: arm.interval for arm in report.arms}
    compared = comparison(plan.folder)
    assert {row.arm: row.interval for row in rows_of(compared)} == intervals
    lines = csv.DictReader(comparison_csv({"": compared}).splitlines())
    written = {line["arm"]: (line["low"], line["high"]) for line in lines}
    assert written == {arm: ("", "") if ends is None else tuple(map(str, ends)) for arm, ends in intervals.items()}
    for results in (results_from_study(plan, report), results_from(compared, title="demo")):
        assert results.lengths is not None and results.alpha == study.alpha
        shown = {curve.arm: point.interval for curve in results.lengths.curves for point in curve.points[-1:]}
        assert shown == intervals
    levels = {coverage(study.alpha), *(coverage(verdict.level) for verdict in report.verdicts)}
    caption = next(line for line in comparison_latex(compared).splitlines() if line.startswith(r"\caption"))
    assert set(re.findall(r"[\d.]+ (?=\\%)", caption)) == {level.removesuffix("%") for level in levels}
    assert f"mean and {coverage(study.alpha)} interval" in as_markdown(report.to_dict())
