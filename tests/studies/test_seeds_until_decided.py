"""Studies that add seeds until it is decided: how they are requested, planned, registered, shown and resumed."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from headtohead.cli.study_board import board_lines
from headtohead.comparison.contrasts import SeedRounds
from headtohead.comparison.registered_answers import answers_of
from headtohead.comparison.report.section_parts import ReportFigure, ReportTable
from headtohead.comparison.report.sections.differences import seeds_section
from headtohead.comparison.study_board import read_board
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.json_schema import schema_of
from headtohead.studies.definition.study_fields import KINDS
from headtohead.studies.planning.cost_estimate import estimate
from headtohead.studies.planning.registration import prepare, registered
from headtohead.studies.planning.shards import shard_of
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.results.report_content import report_data, results_from_study
from headtohead.studies.results.study_report import report_of, write
from headtohead.studies.results.study_tables import show_plan, show_report
from studies.small_studies import TINY, small_study, write_run

SEEDS = {"start": 3, "most": 12, "until": "decided"}
ARMS = {"a": ["model/norm=layer_norm"], "b": ["model/norm=rms_norm"], "c": ["model/norm=none"]}
EFFECTS = {"a": 0.0, "b": 0.6, "c": 0.01}


def planner(folder: Path, **changes: Any) -> StudyPlanner:
    base = [*TINY, f"output_dir={folder}", *changes.pop("base", ())]
    return StudyPlanner(small_study(**{"base": base, "arms": ARMS, "seeds": SEEDS, **changes}))


def loss(arm: str, seed: int) -> float:
    return float(1 + EFFECTS[arm] + 0.1 * np.random.default_rng([seed, *arm.encode()]).normal())


def make(plan: StudyPlan, runs: Any) -> int:
    """Make the runs of these that are missing, as if they had been trained."""
    missing = [run for run in runs if not (plan.run_folder(run) / "record.json").exists()]
    for run in missing:
        write_run(plan.run_folder(run), value=loss(run.arm, run.seed), place=run.place)
    return len(missing)


def conducted(folder: Path, **changes: Any) -> StudyPlan:
    """Planned again and again by one planner, until nothing is left."""
    planning = planner(folder, **changes)
    plan = planning.plan()
    prepare(plan, retry=False)
    while make(plan, plan.runs) or plan.is_open:
        plan = planning.plan()
    return plan


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> StudyPlan:
    """A study whose rounds are over."""
    return conducted(tmp_path_factory.mktemp("ended"))


def test_a_board_has_the_runs_of_the_plan_and_no_others(tmp_path: Path) -> None:
    """One arm is decided after six seeds, the other is not, and of twelve seeds for each some are never run."""
    planning = planner(tmp_path)
    plan = planning.plan()
    prepare(plan, retry=False)
    while make(plan, plan.runs):
        plan = planning.plan()
        board = read_board(plan.folder)
        assert board.num_runs == plan.num_runs
        assert (board.counts["not started"] > 0) == plan.is_open
    assert board.counts["done"] == board.num_runs == len(plan.runs) < 3 * 12 and board.seconds_left is None
    assert next(iter(board_lines("small", board))) == f"small: {len(plan.runs)} of {len(plan.runs)} done"


def text_of(shown: Any) -> str:
    console = Console(width=400, file=io.StringIO(), record=True)
    console.print(shown)
    return console.export_text()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"seeds": {"start": 3, "most": 20}},
            "must be a whole number or a list.* or a mapping {start: 3, most: 20, until",
        ),
        ({"seeds": {**SEEDS, "until": "tired"}}, "or a mapping {start: 3, most: 20, until: decided}"),
        ({"seeds": {**SEEDS, "start": 1}}, "give start from 2 on, and most from there to 100"),
        ({"seeds": {**SEEDS, "most": 2}}, "give start from 2 on"),
        ({"seeds": {**SEEDS, "most": 101}}, "to 100"),
        ({"seeds": {**SEEDS, "most": 5}}, "can decide nothing: 1 contrast need at least 6 seeds: give most more"),
        ({"seeds": SEEDS, "shares": [0.5, 1.0]}, "does not go with shares, whose tests need a fixed number of seeds"),
        ({"seeds": SEEDS, "looks": [3, 5]}, r"looks after every seed, and looks=\[3, 5\] at some"),
    ],
)
def test_rounds_that_make_no_sense_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        small_study(**changes)


def test_the_schema_for_editors_knows_the_record_and_refuses_another() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = schema_of(KINDS["seeds"])
    for valid in (3, [0, 2], SEEDS):
        jsonschema.validate(valid, schema)
    for wrong in ({**SEEDS, "until": "tired"}, {"start": 3, "most": 12}, {**SEEDS, "end": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_the_study_holds_the_rounds_and_all_seeds_there_may_be() -> None:
    study = small_study(seeds=SEEDS)
    assert study.rounds == SeedRounds(3, 12) and study.seeds == tuple(range(12))
    assert small_study().rounds is None


@pytest.mark.slow
def test_a_study_goes_on_round_after_round_and_then_says_how_many_seeds_each_contrast_got(ended: StudyPlan) -> None:
    plan = ended
    report = report_of(plan)
    first, second = report.verdicts
    assert report.complete and not report.failures and not first.exploratory
    assert (first.kind, plan.stops["b", "a"].reason) == ("worse", "decided")
    assert (second.kind, plan.stops["c", "a"].reason) == ("undecided", "futile")
    assert {run.seed for run in plan.runs if run.arm == "c"} == set(range(second.num_seeds[0]))
    assert len(plan.runs) == plan.num_runs < 36
    text = text_of(show_report(report))
    assert f"{first.num_seeds[0]} (decided)" in text and f"{second.num_seeds[0]} (futile)" in text
    assert f"decided after {first.num_seeds[0]} seeds of at most 12" in text
    assert f"stopped after {second.num_seeds[0]} seeds for futility: 12 are not expected to decide it" in text


def test_the_plan_tells_the_best_and_the_worst_case(tmp_path: Path) -> None:
    plan = planner(tmp_path).plan()
    costs = estimate(plan, timer=lambda configs: dict.fromkeys(configs, 10.0))
    assert len(plan.runs) == 9 and plan.is_open and costs.missing == 36
    assert costs.fewest_missing == 21 and costs.fewest_seconds == pytest.approx(210)
    text = text_of(show_plan(plan, costs, 1))
    assert "at worst, all 12 seeds for every arm: 36 of 36 runs to do" in text and "about 6 min" in text
    assert "at best, all decided after 7 seeds: 21 runs to do, about 3.5 min" in text
    assert "2 contrasts share one correction (Holm), whose first step is p < 0.025 at every look" in text


def test_a_study_repeated_from_another_first_seed_rests_on_those_seeds_alone(tmp_path: Path) -> None:
    plan = conducted(tmp_path, first_seed=40, arms={arm: ARMS[arm] for arm in "ab"})
    (verdict,) = report_of(plan).verdicts
    assert (verdict.kind, verdict.exploratory) == ("worse", False)
    assert {run.seed for run in plan.runs} == set(range(40, 40 + verdict.num_seeds[0]))


@pytest.mark.slow
def test_the_evidence_that_counts_is_registered_and_another_is_exploratory(tmp_path: Path) -> None:
    plan = conducted(tmp_path)
    written = registered(plan)
    assert written is not None and written.rounds == SeedRounds(3, 12)
    assert written.evidence == "t mixture and sign flips"
    for change in ({"seeds": {**SEEDS, "most": 11}}, {"solved_at": 1.3}, {"seeds": 8}):
        verdicts = report_of(conducted(tmp_path, **change)).verdicts
        assert all(verdict.exploratory for verdict in verdicts)
    assert not any(verdict.exploratory for verdict in report_of(planner(tmp_path).plan()).verdicts)


@pytest.mark.slow
def test_whoever_goes_on_with_it_and_however_makes_the_same_decisions(tmp_path: Path) -> None:
    """A new planner for every single run, in any order within a round, as killed and resumed studies have it; and
    shards whose folders are put together after each round."""
    once = conducted(tmp_path / "once")
    for index in range(100):
        plan = planner(tmp_path / "killed").plan()
        prepare(plan, retry=False)
        missing = [run for run in plan.runs if not (plan.run_folder(run) / "record.json").exists()]
        if not missing:
            break
        make(plan, [missing[index % len(missing)]])
    killed = planner(tmp_path / "killed").plan()
    sharded = planner(tmp_path / "sharded").plan()
    while sharded.is_open:
        assert sum(make(sharded, shard_of(sharded, index, 2)) for index in (2, 1))
        sharded = planner(tmp_path / "sharded").plan()
    assert once.rounds == killed.rounds == sharded.rounds and not killed.is_open
    assert [run.name for run in once.runs] == [run.name for run in killed.runs] == [run.name for run in sharded.runs]


def test_arms_with_foundations_need_no_foundation_of_a_seed_that_is_not_run(tmp_path: Path) -> None:
    arms = {"a": ["model/norm=layer_norm"], "b": ["model/norm=layer_norm", "init_from=foundation:start"]}
    planning = planner(tmp_path, arms=arms, foundations={"start": []}, seeds={**SEEDS, "most": 8})
    plan = planning.plan()
    assert [run.seed for run in plan.runs if run.is_foundation] == [0, 1, 2] and plan.is_open
    make(plan, [run for run in plan.runs if not run.is_foundation])
    assert plan.num_runs == 8 + 8 + 8, "those that later seeds would need among them"


def test_a_verdict_file_is_read_back_and_its_json_has_the_evidence(ended: StudyPlan) -> None:
    plan = ended
    report = report_of(plan)
    write(report_data(report, results_from_study(plan, report)), plan.folder)
    records = [record for record in report.records.values() if record is not None]
    records = [replace_path(plan, record) for record in records]
    (answer,) = answers_of(records).values()
    assert answer is not None and answer.verdicts == report.verdicts
    evidence = json.loads((plan.folder / "verdict.json").read_text())["verdicts"][0]["seed_evidence"]
    assert (
        evidence["stop"]["reason"] == "decided"
        and len(evidence["curves"]["sign flips"]) == evidence["stop"]["num_seeds"]
    )


def replace_path(plan: StudyPlan, record: Any) -> Any:
    """Return the record as it is found below the study's folder."""
    return replace(record, path=plan.folder / "runs" / record.id) if record.path is None else record


def test_the_report_draws_evidence_over_seeds_and_marks_the_stop(ended: StudyPlan) -> None:
    plan = ended
    shown = seeds_section(results_from_study(plan, report_of(plan)))
    assert shown is not None
    figure, table = shown.parts
    assert isinstance(figure, ReportFigure) and isinstance(table, ReportTable)
    stops = [trace for trace in figure.forms[()]["data"] if trace["mode"] == "markers"]
    assert [trace["marker"]["symbol"] for trace in stops] == ["star", "x"]
    assert [trace["x"] for trace in stops] == [[stop.num_seeds] for stop in plan.stops.values()]
    assert [row[3] for row in table.rows] == ["decided", "futile: the seeds left are not expected to decide it"]


def test_without_rounds_there_is_no_such_section(tmp_path: Path) -> None:
    plan = planner(tmp_path, seeds=1).plan()
    assert seeds_section(results_from_study(plan, report_of(plan))) is None
