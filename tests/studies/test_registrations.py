"""No verdict changes silently, whatever of a study is changed after its results."""

from __future__ import annotations

import io
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headtohead.comparison.contrasts import Verdict
from headtohead.comparison.report import write_report
from headtohead.config.errors import ConfigurationError
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.registration import UNREGISTERED, RegisteredDesign, prepare
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.results.report_content import report_data, results_from_study
from headtohead.studies.results.study_report import StudyReport, report_of
from headtohead.studies.results.study_tables import show_report
from studies.small_studies import TINY, small_study, write_run

VALUES = {"a": (1.0, 1.1, 1.25), "b": (1.3, 1.35, 1.6)}
"""The values of the runs that were registered; those that are made after a change say the opposite."""
ARMS = {"a": ["model/norm=layer_norm"], "b": ["model/norm=rms_norm"]}
RATES = {"low": ["optimizer.lr=0.2"], "high": ["optimizer.lr=0.3"]}
MUTATIONS: dict[str, dict[str, Any]] = {
    "name": {"name": "other"},
    "question": {"question": "Another?"},
    "hypothesis": {"hypothesis": "The opposite."},
    "tuning": {"tuning": "a lot"},
    "arms": {"arms": {**ARMS, "b": ["model/norm=rms_norm", "optimizer.lr=0.5"]}},
    "seeds": {"seeds": 4},
    "first_seed": {"first_seed": 2},
    "rounds": {"seeds": {"start": 2, "most": 6, "until": "decided"}},
    "metric": {"metric": "validation/loss"},
    "baseline": {"baseline": "b"},
    "base": {"base": ["data.seed=5"]},
    "contrasts": {"contrasts": [["a", "b"]]},
    "margin": {"margin": 10.0},
    "budget": {"budget": "equal_tokens"},
    "movable": {"movable": {"b": ["steps"]}},
    "looks": {"looks": [3, 5]},
    "shares": {"shares": [0.5, 1.0]},
    "lengths": {"lengths": [1, 2]},
    "foundations": {"foundations": {"c": []}, "arms": {**ARMS, "b": [*ARMS["b"], "init_from=foundation:c"]}},
    "ablation": {"ablation": {"kind": "one_factor", "factors": {"rate": RATES}}},
    "scaling": {"scaling": {"families": {"one": ["a", "b"]}}},
    "allow_unlike": {"allow_unlike": ["evaluation"]},
    "expected": {"expected": {"b": ["better"]}},
    "seed_offsets": {"seed_offsets": {"b": 1000}},
    "vary": {"vary": ["split"]},
    "alpha": {"alpha": 0.5},
    "best": {"best": 0.0},
    "solved_at": {"solved_at": 1.27},
}
"""One for each field of a study, with what else it needs."""
REFUSED: dict[str, dict[str, Any]] = {"direction": {"direction": "max"}}
"""Those that no study may have, with or without results: a loss is better the lower it is."""


def planned(folder: Path, *, name: str = "small", **changes: Any) -> StudyPlan:
    """Composed as always; nothing is trained."""
    provided: dict[str, Any] = {"arms": ARMS, **changes}
    provided["base"] = [*TINY, "data.packing=stream", f"output_dir={folder}", *provided.get("base", [])]
    return StudyPlanner(replace(small_study(**provided), name=name)).plan()


def ran(plan: StudyPlan, values: dict[str, tuple[float, ...]] | None = None) -> StudyReport:
    """Registered, and every run that is missing made."""
    prepare(plan, retry=False)
    for run in plan.runs:
        if not (plan.run_folder(run) / "record.json").exists():
            value = values[run.arm][run.seed] if values else (5 if run.arm == "a" else 0.5) + 0.1 * run.seed
            metrics = {"validation": {"loss": 3 - value}, "test": {}}
            write_run(plan.run_folder(run), value=value, metrics=metrics, place=run.place)
    return report_of(plan)


def answer(verdict: Verdict) -> tuple[object, ...]:
    return verdict.kind, verdict.method, verdict.difference, verdict.p_adjusted, verdict.seeds, verdict.level


def text_of(report: StudyReport) -> str:
    console = Console(width=400, file=io.StringIO(), record=True)
    console.print(show_report(report))
    return console.export_text()


def test_every_field_of_a_study_is_registered_or_listed_with_the_reason_why_not() -> None:
    held = {field.name for field in fields(RegisteredDesign)} - {"tuned_by", "evidence"}
    assert held | UNREGISTERED.keys() == {field.name for field in fields(Study)} == {"departures", *MUTATIONS, *REFUSED}
    assert not held & UNREGISTERED.keys() and all(UNREGISTERED.values())


@pytest.mark.parametrize("field", MUTATIONS)
def test_no_field_changes_a_verdict_in_silence_once_there_are_results(field: str, tmp_path: Path) -> None:
    """Either the answer stays as it is, or it is exploratory, or it is shown as that of another registration."""
    (before,) = ran(planned(tmp_path), VALUES).verdicts
    assert not before.exploratory and before.kind == "worse"
    plan = planned(tmp_path, **MUTATIONS[field])
    report = ran(plan)
    for verdict in report.verdicts:
        same = (verdict.arm, verdict.baseline) == ("b", "a") and answer(verdict) == answer(before)
        message = len(report.history.registrations) > 1 or plan.folder.name != "small"
        assert same or verdict.exploratory or message, f"{field} turned the answer round in silence"


@pytest.mark.parametrize("field", REFUSED)
def test_a_field_that_would_turn_a_verdict_round_is_refused_by_name(field: str, tmp_path: Path) -> None:
    ran(planned(tmp_path), VALUES)
    with pytest.raises(ConfigurationError, match=f"{field}="):
        planned(tmp_path, **REFUSED[field])


def test_new_seeds_for_one_arm_after_results_are_exploratory(tmp_path: Path) -> None:
    offset = {"seed_offsets": {"b": 1000}}
    assert not ran(planned(tmp_path, **offset), VALUES).verdicts[0].exploratory
    (verdict,) = ran(planned(tmp_path, seed_offsets={"b": 2000})).verdicts
    assert verdict.reasons == ("seed_offsets changed after registration",)


def test_an_offset_of_nothing_leaves_the_test_paired(tmp_path: Path) -> None:
    report = ran(planned(tmp_path, seed_offsets={"b": 0}), VALUES)
    assert report.verdicts[0].method == "paired t"
    assert not report_of(planned(tmp_path)).verdicts[0].exploratory, "nothing was changed"


@pytest.mark.slow
def test_a_second_registration_in_one_folder_is_shown_wherever_its_verdicts_are(tmp_path: Path) -> None:
    assert ran(planned(tmp_path), VALUES).history.sentences == ()
    plan = planned(tmp_path, base=["data.seed=5"])
    report = ran(plan)
    (sentence,) = report.history.sentences
    assert sentence.startswith("this is registration 2 of 2 in this folder; 1 of 20")
    assert "data.seed 0 → 5" in sentence
    (of_the_first,) = report_of(planned(tmp_path)).history.sentences
    assert of_the_first.startswith("this is registration 1 of 2")
    findings = results_from_study(plan, report)
    write_report(findings, tmp_path / "report.html")
    for shown in (text_of(report), (tmp_path / "report.html").read_text(), json.dumps(report_data(report, findings))):
        assert "this is registration 2 of 2" in shown
    message = report_data(report, findings)["history"]
    assert [one["is_this"] for one in message["registrations"]] == [False, True]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hypothesis": "It is not."}, "hypothesis It is. → It is not."),
        ({"expected": {"b": ["worse"]}}, 'expected {} → {"b": ["worse"]}'),
        ({"allow_unlike": ["evaluation"]}, 'allow_unlike [] → ["evaluation"]'),
        ({"tuning": "as much as it took"}, "tuning none → as much as it took"),
    ],
)
def test_what_was_rewritten_after_results_is_shown(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    ran(planned(tmp_path), VALUES)
    report = report_of(planned(tmp_path, **change))
    assert f"rewritten after registration: {sentence}" in report.history.sentences
    assert sentence in text_of(report)


def test_a_question_that_is_asked_once_there_are_results_is_shown_as_not_registered(tmp_path: Path) -> None:
    ran(planned(tmp_path), VALUES)
    report = ran(planned(tmp_path, baseline="b"))
    assert report.history.sentences[0].startswith("this question was not registered in this folder; 1 of 20")


def test_the_metric_that_trials_are_chosen_by_is_registered() -> None:
    tuning = {"search": "grid", "trials": 2, "space": {"optimizer.lr": [0.1, 0.01]}}
    by_loss = RegisteredDesign.of(small_study(tuning=tuning))
    by_other = RegisteredDesign.of(small_study(tuning={**tuning, "metric": "validation/accuracy", "direction": "max"}))
    assert by_loss.changed_in(by_other) == ["tuned_by"]
