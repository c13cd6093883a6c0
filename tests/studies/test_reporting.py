"""A report says everything about a study's runs from records alone."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from headtohead.config.errors import ConfigurationError
from headtohead.execution.monitor import Monitor
from headtohead.records.record import Environment
from headtohead.records.run_folder import RunFolder
from headtohead.studies.planning import registration
from headtohead.studies.planning.registration import prepare
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.study_report import report_of, write
from headtohead.studies.results.study_tables import show_report
from studies.small_studies import plan_without_models, write_run

A, B = (1.0, 1.1, 1.2), (2.0, 2.15, 2.2)


@pytest.fixture(autouse=True)
def ids_of_plain_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "run_id", lambda config: str(config["arm"]))


def filled(plan: StudyPlan, values: Mapping[str, tuple[float, ...]]) -> StudyPlan:
    """Registered, and every run trained."""
    prepare(plan, retry=False)
    for run in plan.runs:
        write_run(plan.run_folder(run), value=values[run.arm][run.seed])
    return plan


def text_of(plan: StudyPlan) -> str:
    console = Console(width=160, record=True)
    console.print(show_report(report_of(plan)))
    return console.export_text()


def test_a_clear_difference_is_a_verdict_as_registered(tmp_path: Path) -> None:
    report = report_of(filled(plan_without_models(tmp_path), {"a": A, "b": B}))
    (verdict,) = report.verdicts
    assert verdict.kind == "worse" and not verdict.exploratory and verdict.seeds == (0, 1, 2)
    assert report.arms[0].mean == pytest.approx(1.1) and report.arms[0].finished == 3
    low, high = report.arms[0].interval or (0, 0)
    assert low < 1.1 < high and not report.remarks and not report.undone


def test_half_a_run_is_never_counted(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    folder = plan.run_folder(plan.runs[0])
    write_run(folder, "running", value=9.0)
    RunFolder(folder).mark_abandoned()
    report = report_of(plan)
    assert report.arms[0].finished == 2 and report.arms[0].mean == pytest.approx(1.15)
    assert [(run.arm, run.seed, run.status) for run in report.undone] == [("a", 0, "interrupted")]
    assert report.verdicts[0].exploratory and "a, seed 0: interrupted" in text_of(plan)


def test_a_divergence_is_counted_and_no_number(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    write_run(plan.run_folder(plan.runs[1]), "diverged", value=5.0, reason="loss was nan at step 3")
    report = report_of(plan)
    assert report.arms[1].failures == 1 and report.arms[1].finished == 2
    assert report.verdicts[0].failures == {"b": 1, "a": 0} and not report.undone
    assert "b, seed 0: diverged: loss was nan at step 3" in text_of(plan)


def test_seeds_added_after_looking_are_exploratory(tmp_path: Path) -> None:
    filled(plan_without_models(tmp_path), {"a": A, "b": B})
    more = filled(plan_without_models(tmp_path, seeds=4), {"a": (*A, 1.3), "b": (*B, 2.3)})
    assert report_of(more).verdicts[0].exploratory


@pytest.mark.parametrize("change", [{"margin": 0.5}, {"alpha": 0.1}, {"direction": "max"}])
def test_another_question_asked_after_looking_is_exploratory(tmp_path: Path, change: dict[str, object]) -> None:
    filled(plan_without_models(tmp_path), {"a": A, "b": B})
    assert report_of(plan_without_models(tmp_path, **change)).verdicts[0].exploratory


def test_what_changed_after_registration_is_named(tmp_path: Path) -> None:
    filled(plan_without_models(tmp_path), {"a": A, "b": B})
    assert report_of(plan_without_models(tmp_path, margin=0.5)).verdicts[0].reasons == (
        "margin changed after registration",
    )


def test_an_arm_that_is_another_than_was_registered_is_exploratory_and_named(tmp_path: Path) -> None:
    filled(plan_without_models(tmp_path), {"a": A, "b": B})
    plan = plan_without_models(tmp_path)
    changed = replace(plan, drafts={**plan.drafts, "b": {**plan.drafts["b"], "arm": "b at another learning rate"}})
    assert report_of(changed).verdicts[0].reasons == ("b changed after registration",)


def test_a_baseline_chosen_after_looking_is_no_registered_design(tmp_path: Path) -> None:
    filled(plan_without_models(tmp_path), {"a": A, "b": B})
    turned = filled(plan_without_models(tmp_path, baseline="b"), {"a": A, "b": B})
    (verdict,) = report_of(turned).verdicts
    assert verdict.baseline == "b" and verdict.exploratory


def test_contrasts_that_are_asked_no_more_still_count_in_the_family(tmp_path: Path) -> None:
    values = {"a": A, "b": B, "c": (3.0, 3.1, 3.3)}
    filled(plan_without_models(tmp_path, arms={"a": [], "b": [], "c": []}), values)
    (verdict,) = report_of(plan_without_models(tmp_path)).verdicts
    assert not verdict.exploratory and verdict.adjustment == "holm"
    assert verdict.p_adjusted == pytest.approx(2 * (verdict.p or 0.0))


def test_an_arm_added_later_leaves_the_registered_contrast_as_it_was(tmp_path: Path) -> None:
    values = {"a": A, "b": B, "c": (3.0, 3.1, 3.3)}
    filled(plan_without_models(tmp_path), values)
    plan = filled(plan_without_models(tmp_path, arms={"a": [], "b": [], "c": []}), values)
    assert [(v.arm, v.exploratory) for v in report_of(plan).verdicts] == [("b", False), ("c", True)]


def test_runs_measured_on_other_data_are_not_compared_and_the_odd_arm_is_named(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    write_run(plan.run_folder(plan.runs[1]), value=1.0, evaluation="other")
    report = report_of(plan)
    assert not report.verdicts and report.withheld
    assert "no verdict: not all runs have the same evaluation data: b0 (seed 0) has other" in report.remarks[0]


def test_what_is_allowed_to_be_unlike_is_compared_and_said(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path, allow_unlike=["evaluation"]), {"a": A, "b": B})
    write_run(plan.run_folder(plan.runs[1]), value=2.0, evaluation="other")
    report = report_of(plan)
    assert report.verdicts[0].kind == "worse" and not report.withheld
    assert report.remarks[0].startswith("unlike by permission: not all runs have the same evaluation data: b0")


def test_a_verdict_that_was_not_expected_is_said_once_every_run_is_done(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path, expected={"b": ["better"]}), {"a": A, "b": B})
    assert report_of(plan).remarks == ("not as expected: b was expected to be better, and is worse",)
    RunFolder(plan.run_folder(plan.runs[0])).path.joinpath("record.json").unlink()
    assert report_of(plan).remarks == ()


def test_a_metric_that_runs_do_not_have_is_refused_with_a_guess(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path, metric="test/los"), {"a": A, "b": B})
    with pytest.raises(ConfigurationError, match=r"has no test/los: did you mean loss\?"):
        report_of(plan)


def test_the_report_is_json_and_a_table(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    message = json.loads(write(report_of(plan).to_dict(), plan.folder).read_text())
    assert message["complete"] and message["verdicts"][0]["kind"] == "worse" and len(message["runs"]) == 6
    shown = text_of(plan)
    assert all(
        word in shown for word in ("baseline", "worse", "tokens/s", "1 MiB", report_of(plan).verdicts[0].sentence[:40])
    )


def test_retry_forgets_failures_and_nothing_else(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    write_run(plan.run_folder(plan.runs[0]), "failed")
    write_run(plan.run_folder(plan.runs[1]), "diverged")
    prepare(plan, retry=False)
    assert all(status.is_done for status in Monitor(plan, plan.runs).update())
    prepare(plan, retry=True)
    statuses = Monitor(plan, plan.runs).update()
    assert [status.status for status in statuses] == ["missing", "diverged", *["finished"] * 4]
    assert statuses[0].share == 0 and statuses[1].share == 1


def test_an_arm_that_cannot_be_measured_gets_no_verdict_but_the_reason(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, metric="test_2x/loss", lengths=[1, 2])
    prepare(plan, retry=False)
    for run in plan.runs:
        record = write_run(plan.run_folder(run), value=1.0)
        if run.arm == "a":
            record.metrics["test_2x"] = {"loss": A[run.seed]}
        else:
            record.cannot["test_2x"] = "its table ends at 8 places"
        RunFolder(plan.run_folder(run)).write_record(record)
    report = report_of(plan)
    assert not report.verdicts and report.complete and not report.undone
    assert report.remarks == ("no verdict on b, which has no test_2x/loss: its table ends at 8 places",)
    assert "2x: its table ends at 8 places" in text_of(plan)


def test_a_narrow_terminal_has_the_costs_in_a_table_of_their_own_and_loses_no_name(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    shown = {}
    for width in (70, 160):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(show_report(report_of(plan)))
        shown[width] = console.export_text()
    assert [text.count("│ b ") for text in shown.values()] == [2, 1]
    assert all("tokens/s" in text and "failures" in text for text in shown.values())


def test_the_report_tells_what_its_family_can_show(tmp_path: Path) -> None:
    plan = filled(
        plan_without_models(tmp_path, arms={"a": [], "b": [], "c": []}), {"a": A, "b": B, "c": (1.1, 1.05, 1.15)}
    )
    message = report_of(plan).to_dict()["family"]
    assert (message["num_contrasts"], message["num_seeds"], message["level"]) == (2, 3, 0.025)
    assert message["effect"] > 3.5 and list(message["effects"]) == ["5", "8", "10"] and message["power"] == 0.8
    text = " ".join(text_of(plan).split())
    assert (
        "2 contrasts share one correction: before it, p < 0.025 decides any of them, whatever the others show (Holm's"
        in text
    )


def test_rows_of_the_test_that_were_learned_are_said_beside_the_verdict(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    held_out = {"rows": 10, "in_train": 4, "exactly": 4}
    leaks = {"unit": "rows", "train": {"rows": 50, "held_out": 4}, "validation": held_out, "test": held_out}
    for run in plan.runs:
        write_run(plan.run_folder(run), value={"a": A, "b": B}[run.arm][run.seed], data={"leaks": leaks})
    assert report_of(plan).remarks[0].startswith("4 of 10 test rows and 4 of 10 validation rows also occur in train")


def test_runs_of_arms_under_other_conditions_are_named_beside_the_verdict(tmp_path: Path) -> None:
    plan = filled(plan_without_models(tmp_path), {"a": A, "b": B})
    for run in plan.runs:
        environment = Environment({"torch": "2.9" if run.arm == "a" else "2.8"}, "3.11", "Linux", {"type": "cpu"})
        write_run(plan.run_folder(run), value={"a": A, "b": B}[run.arm][run.seed], environment=environment)
    report = report_of(plan)
    assert report.remarks == (
        "b and a differ in more than what makes them: environment.packages.torch (2.8 against 2.9)",
    )
    assert report.to_dict()["unlike_conditions"][0]["conditions"][0]["name"] == "environment.packages.torch"
