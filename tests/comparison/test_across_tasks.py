"""Several tasks: scores on one scale, a divergence ranks worst, and the verdict over all is one of seeds."""

from __future__ import annotations

import pytest

from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison_results import results_from
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.report.section_parts import ReportFigure, ReportTable
from headtohead.comparison.report.sections.tasks import section
from headtohead.comparison.tables.comparison_formats import comparison_csv
from headtohead.comparison.tables.latex_tables import task_latex
from headtohead.comparison.task_comparison import TaskComparison, compared
from headtohead.records.record import Progress, RunRecord, StudyPosition

ACCURACIES = {
    ("copy", "gpt"): [0.50, 0.52, 0.48],
    ("copy", "lstm"): [0.80, 0.81, 0.79],
    ("sort", "gpt"): [0.40, 0.41, 0.42],
    ("sort", "lstm"): [0.60, 0.63, 0.60],
}


def records(*, chance: float | None = 0.1) -> list[RunRecord]:
    return [
        RunRecord(
            id=f"{task}-{arm}-{seed}",
            name=f"{arm}-s{seed}",
            status="finished",
            place=StudyPosition(task, arm, seed),
            metrics={"test": {"accuracy": value}},
            baselines={} if chance is None else {"accuracy": chance},
            costs={"totals": {"parameters": 100}},
            progress=Progress(tokens=1000),
        )
        for (task, arm), values in ACCURACIES.items()
        for seed, value in enumerate(values)
    ]


def over_tasks(result: list[RunRecord]) -> TaskComparison:
    comparison = compared(result, ComparisonSpec("gpt"))
    assert isinstance(comparison, TaskComparison)
    return comparison


def test_runs_of_several_studies_are_judged_by_task_and_over_all() -> None:
    comparison = over_tasks(records())
    assert {task: each.verdicts[0].kind for task, each in comparison.tasks.items()} == {
        "copy": "better",
        "sort": "better",
    }
    (verdict,) = comparison.verdicts
    assert (verdict.kind, verdict.metric, verdict.seeds) == ("better", "normalised score", (0, 1, 2))
    assert verdict.difference == pytest.approx((0.3 + 0.2) / 2 / 0.9)
    assert comparison.overall.arms[0].costs.tokens == 2000


def test_scores_lie_between_chance_and_the_best_where_chance_is_known() -> None:
    aggregate = over_tasks(records()).aggregate
    gpt, lstm = aggregate.arms
    assert gpt.means == pytest.approx({"copy": 0.4 / 0.9, "sort": 0.31 / 0.9})
    assert lstm.improvement is not None and lstm.improvement.value == 1.0
    assert lstm.profile[0] == 1.0 and lstm.profile[-1] == 0.0
    assert "score 0 is chance" in aggregate.normalisation


def test_without_a_chance_the_baseline_is_the_measure_and_it_is_said() -> None:
    comparison = over_tasks(records(chance=None))
    assert comparison.aggregate.arms[0].means == pytest.approx({"copy": 1.0, "sort": 1.0})
    assert "score 1 is the mean of gpt" in comparison.overall.remarks[0]


def test_a_run_that_diverged_on_one_task_diverged_and_scores_as_the_worst() -> None:
    result = records()
    lost = next(record for record in result if record.id == "sort-lstm-2")
    lost.status, lost.metrics = "diverged", {}
    comparison = over_tasks(result)
    lstm = comparison.aggregate.arms[1]
    assert lstm.diverged == 1
    assert lstm.means["sort"] == pytest.approx((0.5 / 0.9 + 0.53 / 0.9) / 3)
    assert comparison.verdicts[0].failures["lstm"] == 1
    assert comparison.verdicts[0].method == "ranks"


def test_arms_and_seeds_that_are_not_on_all_tasks_are_left_out_and_named() -> None:
    stray = records()[0]
    stray.id, stray.place = "copy-mamba-0", StudyPosition("copy", "mamba", 0)
    comparison = over_tasks([*[r for r in records() if r.id != "sort-gpt-2"], stray])
    assert comparison.aggregate.seeds == (0, 1)
    assert any("since some tasks have no runs of theirs: mamba" in remark for remark in comparison.overall.remarks)
    assert any("seeds not used, since not all arms have them on all tasks: 2" in r for r in comparison.overall.remarks)


def test_a_baseline_without_a_scale_is_refused() -> None:
    result = records(chance=None)
    for record in result:
        record.metrics = {"test": {"accuracy": -record.metrics["test"]["accuracy"]}}
    with pytest.raises(NotComparable, match="have no scale in common"):
        compared(result, ComparisonSpec("gpt"))


def test_scores_as_latex_are_never_bold_and_csv_has_all_tasks() -> None:
    comparison = over_tasks(records())
    text = task_latex(comparison.aggregate)
    assert r"lstm & 0.778 & 0.567 &" in text and r"\textbf" not in text
    lines = comparison_csv({**comparison.tasks, "": comparison.overall}).splitlines()
    assert [line.split(",")[:2] for line in lines[1::2]] == [["copy", "gpt"], ["sort", "gpt"], ["", "gpt"]]


def test_the_report_shows_scores_and_profiles_of_all_arms() -> None:
    findings = results_from(over_tasks(records()), title="two tasks")
    shown = section(findings)
    assert shown is not None
    (table,) = [part for part in shown.parts if isinstance(part, ReportTable)]
    assert len(table.rows) == 2 and len(table.rows[0]) == len(table.columns) == 6
    (profiles,) = [part for part in shown.parts if isinstance(part, ReportFigure)]
    assert [trace["name"] for trace in profiles.forms[()]["data"]] == ["gpt", "lstm"]
    assert findings.to_dict()["tasks"]["baseline"] == "gpt"
