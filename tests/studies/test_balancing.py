"""Studies whose arms are brought to one budget before they run, once and for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headtohead.config.compose.choices import choice_names
from headtohead.config.errors import ConfigurationError
from headtohead.estimates.step_timing import StepTiming
from headtohead.records.record import Progress
from headtohead.studies.matching import solver
from headtohead.studies.matching.budgets import EqualParameters, EqualTime, EqualTokens
from headtohead.studies.matching.matching import MatchedArm, Matching, SavedMatchings
from headtohead.studies.planning.matched_arms import refuse_unmatched
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.results.study_verdicts import check_runs
from studies.small_studies import TINY, plan_without_models, small_study, write_run
from waiting import PATIENCE

WIDE = {
    "a": ["model.d_model=32", "model.num_heads=2"],
    "b": ["model.d_model=64", "model.num_heads=4", "model/norm=rms_norm"],
}


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def planned(folder: Path, **changes: Any) -> StudyPlan:
    provided = {"base": [*TINY, f"output_dir={folder}"], "seeds": 1, "arms": WIDE, "budget": "equal_parameters"}
    return StudyPlanner(small_study(**{**provided, **changes})).plan()


@pytest.mark.parametrize("budget", choice_names("budget"))
def test_runs_that_may_end_early_are_refused_where_steps_make_them_equal(
    budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study that were run so would have no verdict, and would say so once all of its runs are done."""

    def matched(configs: Any, baseline: str, *_: Any, **__: Any) -> Matching:
        arms = [MatchedArm(name, (), {}, 1.0, 0.0, met=True) for name in configs]
        return Matching(EqualParameters(), baseline, 1.0, tuple(arms))

    monkeypatch.setattr(solver, "match_composed", matched)
    early = {"base": [*TINY, f"output_dir={tmp_path}"], "budget": budget, "arms": {**WIDE, "a": ["trainer.patience=2"]}}
    if budget in ("equal_parameters", "equal_state"):
        assert planned(tmp_path, **early).matching
    else:
        with pytest.raises(ConfigurationError, match=rf"patience=2 may end runs of a before .* budget={budget} makes"):
            planned(tmp_path, **early)
    assert planned(tmp_path, **early, allow_unlike=["budget"]).matching


def test_an_arm_moves_to_the_budget_and_what_was_found_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(tmp_path)
    assert plan.matching is not None and plan.matching.met
    (run,) = plan.of_arm("b")
    assert set(plan.matching.arm("b").overrides) <= set(run.overrides) and plan.matching.arm("a").overrides == ()
    assert plan.drafts["b"]["model"]["d_model"] != 64 or "feedforward" in " ".join(run.overrides)
    monkeypatch.setattr(solver, "match_composed", None)
    again = planned(tmp_path, seeds=3, metric="test/perplexity")
    assert again.matching == plan.matching and again.runs[1].id == run.id


@pytest.mark.slow
def test_an_arm_that_joins_later_moves_no_other(tmp_path: Path) -> None:
    before = planned(tmp_path)
    after = planned(tmp_path, arms={**WIDE, "c": ["model.d_model=48", "model.num_heads=3", "model/norm=none"]})
    assert before.matching is not None and after.matching is not None
    assert after.matching.arm("b") == before.matching.arm("b") and after.matching.arm("c").met
    assert len(list((before.folder / "matchings").iterdir())) == 2


def test_arms_that_fit_as_they_are_written_are_left_alone(tmp_path: Path) -> None:
    plan = planned(tmp_path, budget="equal_tokens")
    assert plan.matching is not None and all(arm.overrides == () for arm in plan.matching.arms)


def test_a_budget_that_no_shape_meets_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    provided: dict[str, Any] = {"budget": {"equal_parameters": {"tolerance": 0.0001}}, "movable": {"b": ["width"]}}
    with pytest.raises(ConfigurationError, match=r"budget=equal_parameters is not met. b: of \d+ settings of width"):
        planned(tmp_path, **provided)
    plan = planned(tmp_path, **provided, allow_unlike=["budget"])
    assert plan.matching is not None and not plan.matching.met


def test_an_option_that_a_budget_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"budget.tolerence is not a field"):
        planned(tmp_path, budget={"equal_parameters": {"tolerence": 0.1}})


def test_times_are_not_measured_by_shards_apart(tmp_path: Path) -> None:
    planner = StudyPlanner(small_study(base=[*TINY, f"output_dir={tmp_path}"], arms=WIDE, budget="equal_time"))
    with pytest.raises(ConfigurationError, match="shards would measure it apart: call `h2h study small --plan` first"):
        refuse_unmatched(planner.study, planner.written, planner.folder)


def test_of_many_that_plan_at_once_one_solves(tmp_path: Path) -> None:
    solved: list[Sequence[str]] = []

    def solve(names: Sequence[str]) -> Matching:
        solved.append(names)
        return matching(b=1.0)

    result: list[Any] = []
    threads = [
        Thread(target=lambda: result.append(SavedMatchings(tmp_path).completed({"b": "key"}, solve))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert solved == [["b"]] and len(result) == 4 and all(saved == result[0] for saved in result)


def matching(budget: Any = None, **residuals: float) -> Matching:
    arms = (MatchedArm(name, (), {}, 1.0, residual, met=True) for name, residual in {"a": 0.0, **residuals}.items())
    return Matching(budget or EqualParameters(), "a", 1.0, tuple(arms))


def audited(folder: Path, budget: str, kind: Any, progress: Progress, **changes: Any) -> Any:
    """Every run of b as told, those of a with 100 of everything."""
    plan = replace(plan_without_models(folder, budget=budget, **changes), matching=matching(kind, b=0.0))
    runs = {}
    for run in plan.runs:
        runs[run] = write_run(plan.run_folder(run), place=run.place, budget={"kind": budget})
        runs[run].progress = progress if run.arm == "b" else Progress(tokens=100, flops=100, seconds=100)
    return check_runs(plan, runs)


def test_runs_that_did_not_have_what_was_equal_get_no_verdict(tmp_path: Path) -> None:
    odd = audited(tmp_path, "equal_tokens", EqualTokens(), Progress(tokens=110))
    assert "b 1.1 times the tokens of a" in odd.objections[0] and "allow_unlike: [budget]" in odd.objections[0]
    even = audited(tmp_path, "equal_tokens", EqualTokens(), Progress(tokens=102))
    assert even.objections == () and even.remarks == ()


def test_what_is_allowed_is_said_and_no_objection(tmp_path: Path) -> None:
    result = audited(tmp_path, "equal_tokens", EqualTokens(), Progress(tokens=110), allow_unlike=["budget"])
    assert (
        result.objections == () and "unlike by permission: equal_tokens is not what the runs had" in result.remarks[0]
    )


def test_times_of_runs_are_told_beside_those_that_were_matched(tmp_path: Path) -> None:
    result = audited(tmp_path, "equal_time", EqualTime(), Progress(seconds=150))
    assert result.objections == () and "b 1.5 times the seconds of a" in result.remarks[0]


def test_times_that_were_measured_coarsely_are_told_so(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, budget="equal_time")
    timed = replace(matching().arm("a"), name="b", uncertainty=0.3, timing=StepTiming((1.0, 2.0), "a device", {}))
    result = check_runs(replace(plan, matching=Matching(EqualTime(), "a", 1.0, (matching().arm("a"), timed))), {})
    assert result.remarks[0].startswith("b was matched by times that scatter by 30%, more than the 2% tolerated")
