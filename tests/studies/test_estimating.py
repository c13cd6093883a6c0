"""A plan estimates its cost before anything of it is done."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, cast
from weakref import WeakSet

import pytest
from rich.console import Console

from from_fields import from_fields
from headtohead.config.errors import ConfigurationError
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.estimates import run_cost, step_times
from headtohead.estimates.run_cost import retained_bytes, temporary_bytes
from headtohead.execution.single_run import train_run
from headtohead.studies.planning.cost_estimate import _by_flops, _ends_first, _one_of_each_kind_first, estimate
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.results.study_tables import show_plan
from studies.small_studies import TINY, small_study, write_run

TUNING = {"search": "grid", "trials": 2, "space": {"optimizer.lr": [0.001, 0.01]}, "steps": 2}


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


def planned(folder: Path, **changes: Any) -> StudyPlan:
    return StudyPlanner(small_study(**{"base": [*TINY, f"output_dir={folder}"], "seeds": 3, **changes})).plan()


def ten_seconds(configs: Mapping[str, Any]) -> dict[str, float]:
    return dict.fromkeys(configs, 10.0)


def test_trials_and_points_on_the_budget_axis_count_by_their_steps(tmp_path: Path) -> None:
    plan = planned(tmp_path, tuning=TUNING, shares=[0.5, 1])
    result = estimate(plan, timer=ten_seconds)
    assert (result.runs, result.trials, result.missing) == (16, 4, 16)
    each = 2 * 0.5 + 3 * (0.5 + 1)
    assert result.arms[0].missing_share == each and result.seconds == 2 * each * 10
    assert result.flops == pytest.approx(sum(each * arm.flops for arm in result.arms))
    message = result.to_dict()
    assert message["runs"] == 16 and message["disk_bytes"] > 0 and message["arms"][0]["trials"] == 2


@pytest.mark.slow
def test_what_is_fitted_at_once_is_planned_as_one_fit(tmp_path: Path) -> None:
    base = ["data=sentence_grammar", "data.num_train=40", "data.num_validation=4", "data.num_test=4", "tracking=none"]
    base += ["task=classification", f"output_dir={tmp_path}"]
    arms = {"net": ["model/size=tiny"], "words": ["model=bag_of_words", "trainer.max_steps=100000"]}
    plan = planned(tmp_path, base=base, arms=arms, baseline="net", metric="test/accuracy", direction="max", seeds=2)
    result = estimate(plan, timer=lambda configs: ten_seconds(configs) if list(configs) == ["net"] else {})
    net, words = result.arms
    data = from_fields(SentenceGrammar, num_train=40, num_validation=4, num_test=4)
    assert (words.tokens, words.flops, words.seconds) == (sum(data.split("train").lengths()), None, None)
    assert result.flops == 2 * net.flops and result.seconds == 20
    shown = StringIO()
    Console(width=160, file=shown).print(show_plan(plan, result, workers=1))
    [line] = [line for line in shown.getvalue().splitlines() if "words" in line]
    assert "one fit" in line and line.split().count("-") == 2
    assert "about 20 s on 1 worker" in shown.getvalue()
    assert "one contrast, held to p < 0.05; 2 seeds detect" in " ".join(shown.getvalue().split())


def test_of_fits_alone_no_time_and_no_flops_are_told(tmp_path: Path) -> None:
    base = ["data=sentence_grammar", "data.num_train=40", "data.num_validation=4", "data.num_test=4", "tracking=none"]
    base += ["task=classification", "model=bag_of_words", f"output_dir={tmp_path}"]
    arms = {"few": ["trainer.train_rows=20"], "many": []}
    plan = planned(tmp_path, base=base, arms=arms, baseline="few", metric="test/accuracy", direction="max", seeds=2)
    shown = StringIO()
    Console(width=160, file=shown).print(show_plan(plan, estimate(plan, timer=ten_seconds), workers=2))
    assert "4 of 4 runs to do, no time known, on 2 workers\n" in shown.getvalue()


def test_a_share_of_the_budget_is_no_shorter_fit(tmp_path: Path) -> None:
    base = ["data=sentence_grammar", "data.num_train=40", "tracking=none", f"output_dir={tmp_path}"]
    arms = {"words": ["model=bag_of_words"], "net": []}
    options: dict[str, Any] = {"metric": "test/accuracy", "direction": "max", "shares": [0.5, 1]}
    with pytest.raises(ConfigurationError, match="words is fitted in one step"):
        planned(tmp_path, base=[*base, "task=classification"], arms=arms, baseline="net", **options)


def test_what_is_done_is_neither_counted_nor_timed_again(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    for run in plan.runs[:-1]:
        write_run(plan.run_folder(run), "diverged")
    result = estimate(plan, timer=lambda configs: dict.fromkeys(configs, 7.0) if list(configs) == ["b"] else {})
    assert [(arm.missing, arm.seconds) for arm in result.arms] == [(0, None), (1, 7.0)] and result.seconds == 7.0


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["all", "best", "none"])
def test_disk_is_taken_as_told(keep: str, tmp_path: Path) -> None:
    """Weights decide for models worth a thought: here, of half a million of them."""
    base = [
        *TINY,
        f"output_dir={tmp_path}",
        f"trainer.keep_checkpoints={keep}",
        "model.d_model=256",
        "model.num_heads=4",
    ]
    plan = planned(tmp_path, base=base, seeds=1)
    run = plan.runs[0]
    message = estimate(plan, timer=ten_seconds).arms[0]
    train_run(run, plan.run_folder(run), None, 1)
    taken = sum(file.stat().st_size for file in plan.run_folder(run).rglob("*") if file.is_file())
    assert message.bytes_kept == pytest.approx(taken, rel=0.1, abs=60_000)
    assert message.bytes_passing == 4 * 4 * message.parameters


@pytest.mark.parametrize(
    ("optimizer", "copies"),
    [("adamw", 4), ("ademamix", 5), ("lion", 3), ("sgd", 3), ("muon", 4), ("soap", 11)],
)
def test_optimizers_keep_what_they_keep(optimizer: str, copies: int, tmp_path: Path) -> None:
    config = planned(tmp_path, base=[*TINY, f"optimizer={optimizer}"], seeds=1).runs[0].config
    assert temporary_bytes(config, 10) == copies * 40
    averaged = {**config, "trainer": {**config["trainer"], "weight_averaging": 0.99}}
    assert temporary_bytes(averaged, 10) == (copies + 1) * 40
    assert (
        retained_bytes({**averaged, "precision": {"name": "64-true"}}, 10) - retained_bytes(averaged, 10)
        == (copies + 1) * 40
    )


class CountedModel:
    """Trains nothing, and says how many models there were, and how many at once."""

    made = 0
    alive: ClassVar[WeakSet[CountedModel]] = WeakSet()

    messages = 0.0

    def __init__(self, config: Mapping[str, Any]) -> None:
        assert not self.alive, "a model is freed before the next one is made"
        self.alive.add(self)
        CountedModel.made += 1

    def train(self, num_steps: int) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("rates", [1, 4])
def test_a_plan_makes_as_many_models_as_there_are_shapes(
    rates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {"make_model": 0, "build_data": 0, "data_volume_of": 0}

    def counting(name: str) -> Any:
        original = getattr(run_cost, name)

        def call(*arguments: Any) -> Any:
            counted[name] += 1
            return original(*arguments)

        return call

    for name in counted:
        monkeypatch.setattr(run_cost, name, counting(name))
    monkeypatch.setattr(step_times, "TimedModel", CountedModel)
    monkeypatch.setattr(CountedModel, "made", 0)
    arms = {
        f"{layers}_{rate}": [f"model.num_layers={layers}", f"optimizer.lr=0.0{rate + 1}"]
        for layers in (1, 2)
        for rate in range(rates)
    }
    result = estimate(planned(tmp_path, arms=arms, baseline="1_0"))
    assert counted == {"make_model": 2, "build_data": 1, "data_volume_of": 1} and CountedModel.made == 2
    assert len(result.arms) == 2 * rates and all(arm.source == "calibration" for arm in result.arms)


@pytest.mark.slow
def test_arms_that_the_time_did_not_reach_are_told_by_the_flops_of_the_timed_one_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = {f"a{layers}": [f"model.num_layers={layers}"] for layers in (1, 2, 3, 4, 5)}
    monkeypatch.setattr(step_times, "_SECONDS", 0.0)
    result = estimate(planned(tmp_path, arms=arms, baseline="a1"))
    assert [arm.source for arm in result.arms] == ["calibration", *["its FLOPs"] * 4]
    first, second, *_ = result.arms
    assert first.seconds and second.seconds == pytest.approx(first.seconds * (second.flops or 0) / (first.flops or 1))


def test_whenever_timing_stops_what_was_reached_is_spread_over_all() -> None:
    assert list(_ends_first("abcdefghi")) == list("aiecgbdfh")
    assert [list(_ends_first("abcd"[:number])) for number in range(3)] == [[], ["a"], ["a", "b"]]


class FirstStepIsSlow:
    """A stand-in for a timed model on a clock of its own: the first step imports, allocates and compiles."""

    messages = 0.0

    def __init__(self) -> None:
        self.now, self.steps = 0.0, 0

    def train(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.now += 2.0 if self.steps == 0 else 0.05
            self.steps += 1


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 100.0])
def test_what_only_the_first_step_does_is_not_counted_for_every_step_however_many_shapes_share_the_time(
    share: float,
) -> None:
    trainee = FirstStepIsSlow()
    assert step_times._step_seconds(cast(Any, trainee), share, lambda: trainee.now) == pytest.approx(0.05)


def test_one_arm_of_each_kind_is_timed_before_a_second_of_any_and_tells_the_others_of_its_kind() -> None:
    flops = {"a1": 1.0, "a2": 2.0, "a3": 3.0, "b1": 2.1, "b2": 2.2, "c1": 1.2}
    kinds = {arm: (arm[0],) for arm in flops}
    order = _one_of_each_kind_first(flops, kinds)
    assert sorted(order) == sorted(flops) and {arm[0] for arm in order[:3]} == {"a", "b", "c"}
    inferred = _by_flops(flops, {"a1": 10.0, "b2": 220.0}, kinds)
    assert inferred == pytest.approx({"a2": 20.0, "a3": 30.0, "b1": 210.0, "c1": 12.0})
