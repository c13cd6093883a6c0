"""The scale of a study's metric is that of a comparison, and what it says stands wherever a verdict is told."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.report import report as page
from headtohead.comparison.tables.comparison_formats import comparison_table
from headtohead.comparison.tables.comparison_rows import as_data
from headtohead.comparison.tables.latex_tables import comparison_latex
from headtohead.metrics.labels import ACCURACY
from headtohead.records.record import Comparability, Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.studies.definition.study_fields import unexpected
from headtohead.studies.planning import registration
from headtohead.studies.planning.registration import prepare
from headtohead.studies.results.report_content import results_from_study
from headtohead.studies.results.study_report import StudyReport, report_of
from headtohead.studies.results.study_tables import show_report
from headtohead.studies.results.wandb_pages import as_markdown
from studies.small_studies import plan_without_models

AT_CHANCE = {"a": (0.036, 0.035, 0.037), "b": (0.037, 0.038, 0.036)}
FLOOR = "neither learned the task"
CHANCE = "chance, the score of a model that learned nothing: 0.016"


@pytest.fixture(autouse=True)
def ids_of_plain_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "run_id", lambda config: str(config["arm"]))


def study_of(
    folder: Path, values: dict[str, tuple[float, ...]], name: str, chance: float, **changes: object
) -> tuple[StudyReport, Comparison, str]:
    """The study's report, the comparison of its runs, and the report's page."""
    plan = plan_without_models(folder, metric=f"test/{name}", seeds=len(values["a"]), **changes)
    prepare(plan, retry=False)
    records = []
    for spec in plan.runs:
        run = RunFolder.create_at(plan.run_folder(spec))
        record = RunRecord(id=run.id, name=spec.arm, status="finished", progress=Progress(step=4, flops=1e6))
        record.metrics["test"] = {name: values[spec.arm][spec.seed]}
        record.baselines, record.comparability = {name: chance}, Comparability(evaluation="e")
        record.place = replace(record.place, study="small", arm=spec.arm, seed=spec.seed)
        run.write_record(record)
        records.append(replace(record, path=run.path))
    report = report_of(plan)
    comparison = comparison_of(records, ComparisonSpec("a", margin=plan.study.margin))
    return report, comparison, page(results_from_study(plan, report))


def printed(message: RenderableType) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(message)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_a_study_that_learned_nothing_says_so_in_sentence_table_report_and_json(tmp_path: Path) -> None:
    report, comparison, html = study_of(tmp_path, AT_CHANCE, "accuracy", 1 / 64, direction="max", margin=0.05)
    (verdict,) = report.verdicts
    assert verdict.kind == "undecided" and FLOOR in verdict.sentence
    message = json.loads(json.dumps(report.to_dict()))
    assert message["verdicts"][0]["answer"] == f"undecided: {FLOOR}" and message["chance"] == 1 / 64
    shown = printed(show_report(report))
    assert f"undecided: {FLOOR}" in shown and CHANCE in shown
    assert FLOOR in html and "Chance, the score of a model that learned nothing, is 0.016" in html
    assert f"undecided: {FLOOR}" in as_markdown(message) and CHANCE in as_markdown(message)
    table = printed(comparison_table(comparison))
    assert "neither learned" in table and "the task" in table and CHANCE in table
    assert f"undecided: {FLOOR}" in comparison_latex(comparison) and CHANCE in comparison_latex(comparison)
    data = as_data(comparison)
    assert data["arms"][1]["answer"] == f"undecided: {FLOOR}" and data["chance"] == 1 / 64


def test_a_control_expects_that_nothing_was_learned(tmp_path: Path) -> None:
    report, _, _ = study_of(tmp_path, AT_CHANCE, "accuracy", 1 / 64, direction="max", margin=0.05)
    (verdict,) = report.verdicts
    assert unexpected(verdict, ["neither_learned"]) is None and unexpected(verdict, ["undecided"]) is None
    assert FLOOR in (unexpected(verdict, ["better"]) or "")
    assert unexpected(replace(verdict, neither_learned=False), ["neither_learned"]) is not None


@pytest.mark.parametrize(
    ("name", "chance", "values"),
    [
        ("accuracy", 0.1, {"a": (0.99, 0.98, 0.99, 0.1), "b": (0.1, 0.12, 0.11, 0.1)}),
        ("loss", 4.2, {"a": (4.1, 4.0, 0.1, 4.2), "b": (0.1, 0.2, 0.1, 0.1)}),
        ("loss", 4.2, {"a": (2.1, 2.0, 2.2, 2.1), "b": (1.9, 1.8, 1.7, 1.9)}),
        ("accuracy", 0.1, AT_CHANCE),
    ],
)
def test_study_and_comparison_read_the_same_scale(
    tmp_path: Path, name: str, chance: float, values: dict[str, tuple[float, ...]]
) -> None:
    direction = "max" if name == "accuracy" else "min"
    report, comparison, _ = study_of(tmp_path, values, name, chance, direction=direction)
    (one,), (other,) = report.verdicts, comparison.verdicts
    assert (one.kind, one.method, one.solved, one.p, one.chance, one.neither_learned) == (
        other.kind, other.method, other.solved, other.p, other.chance, other.neither_learned,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "values"), [("loss", (0.001, 0.2, 0.02)), ("accuracy", (0.999, 0.8, 0.98))])
def test_no_interval_leaves_what_the_metric_can_be(tmp_path: Path, name: str, values: tuple[float, ...]) -> None:
    direction, chance = ("max", 0.1) if name == "accuracy" else ("min", 4.0)
    report, comparison, _ = study_of(tmp_path, {"a": values, "b": values[::-1]}, name, chance, direction=direction)
    for arm in report.arms:
        low, high = arm.interval or (-1.0, 2.0)
        assert low >= 0 and (name == "loss" or high <= 1)
    end = "[0.000" if name == "loss" else "1.000]"
    assert end in printed(show_report(report)) and end in comparison_latex(comparison)


def made(arm: str, seed: int, stage: str, name: str, value: float) -> RunRecord:
    return RunRecord(id=f"{arm}{seed}", name=arm, seed=seed, status="finished", metrics={stage: {name: value}})


def test_a_metric_of_ones_own_has_its_bounds_and_direction_from_the_record() -> None:
    own = replace(ACCURACY, name="tidiness")
    records = [
        replace(made(arm, seed, "test", "tidiness", value), scales={"tidiness": own}, baselines={"tidiness": 0.1})
        for arm, values in {"a": (0.999, 0.8, 0.98), "b": (0.5, 0.6, 0.55)}.items()
        for seed, value in enumerate(values)
    ]
    comparison = comparison_of(records, ComparisonSpec("b", metric="tidiness"))
    assert comparison.direction == "max" and comparison.best == 1.0 and comparison.chance == 0.1
    assert "1.000]" in comparison_latex(comparison)
    assert not any("taken to be better" in remark for remark in comparison.remarks)


def test_results_of_other_programs_say_that_their_metric_was_guessed() -> None:
    records = [
        RunRecord(
            id=f"{arm}{seed}", name=arm, seed=seed, status="finished", metrics={"given": {"top1": 0.5 + seed / 9}}
        )
        for arm in "ab"
        for seed in range(2)
    ]
    assert any(
        "more of top1 is taken to be better, as its name tells" in r
        for r in comparison_of(records, ComparisonSpec("a")).remarks
    )
    message = comparison_of(records, ComparisonSpec("a", direction="max"))
    assert not any("taken to be better" in remark for remark in message.remarks)
