"""Every arm gets the same trials, they follow from what was tried alone, and validation decides."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headtohead.comparison.analyses.trials import Setting, Trial, ValueRange, trial_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.value_kinds import MismatchError
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.tuning import Tuning, for_arm, misfits
from headtohead.records.record import RunRecord
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.definition.tuning_field import TUNING
from headtohead.studies.planning.registration import RegisteredDesign
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.planning.study_progress import progress_of, proposals, summary_of, winner
from studies.small_studies import TINY, small_study, write_run

SPACE = {"optimizer.lr": {"low": "1e-4", "high": 1e-2}, "model.dropout": [0.0, 0.1, 0.2]}
Value = Callable[[Setting], float | None]


def tuning_of(lr: float = 1e-3, **written: Any) -> Tuning:
    read = TUNING.read(written)
    assert isinstance(read, Tuning)
    return for_arm(read, metric="test/loss", direction="min", config={"optimizer": {"lr": lr}})


def searched(tuning: Tuning, value: Value, tried: tuple[Trial, ...] = ()) -> list[Trial]:
    trials = list(tried)
    while settings := proposals(tuning, trials):
        for setting in settings:
            result = value(setting)
            trials.append(Trial(len(trials), setting, "diverged" if result is None else "finished", result))
    return trials


def bowl(setting: Setting) -> float | None:
    """Best at 0.002, diverges above 0.006."""
    rate = setting.values["optimizer.lr"]
    assert isinstance(rate, float)
    return None if rate > 6e-3 else math.log(rate / 2e-3) ** 2


@pytest.mark.parametrize("search", ["grid", "random", "optuna"])
def test_every_arm_gets_as_many_different_trials_of_the_same_space(search: str) -> None:
    tuning = tuning_of(search=search, trials=9, space=SPACE)
    arms = [searched(tuning, value) for value in (bowl, lambda _: None, lambda setting: -len(setting.words))]
    for trials in arms:
        assert len({trial.setting for trial in trials}) == 9
        for trial in trials:
            assert trial.setting.values.keys() == SPACE.keys()
            assert 1e-4 <= trial.setting.values["optimizer.lr"] <= 1e-2
            assert trial.setting.values["model.dropout"] in SPACE["model.dropout"]
    if search != "optuna":
        assert len({tuple(trial.setting for trial in trials) for trials in arms}) == 1


@pytest.mark.parametrize("search", ["random", "optuna"])
def test_more_trials_leave_the_first_ones_as_they_are(search: str) -> None:
    few, many = (searched(tuning_of(search=search, trials=n, space=SPACE), bowl) for n in (5, 9))
    assert many[:5] == few


@pytest.mark.parametrize("search", ["grid", "random", "optuna"])
@pytest.mark.parametrize("stopped_after", [0, 2, 4, 6])
def test_a_search_that_was_interrupted_goes_on_as_if_it_had_not_been(search: str, stopped_after: int) -> None:
    tuning = tuning_of(search=search, trials=9, space=SPACE)
    whole = searched(tuning, bowl)
    assert searched(tuning, bowl, tuple(whole[:stopped_after])) == whole


def test_optuna_learns_from_values_and_from_divergences() -> None:
    tuning = tuning_of(search="optuna", trials=24, space={"optimizer.lr": SPACE["optimizer.lr"]})
    later = searched(tuning, bowl)[8:]
    rates = [trial.setting.values["optimizer.lr"] for trial in later]
    assert sum(1e-3 < rate < 4e-3 for rate in rates) > len(rates) / 2
    assert sum(trial.value is None for trial in later) <= 3


def test_optuna_says_nothing_and_leaves_its_logging_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    with caplog.at_level(logging.DEBUG):
        searched(tuning_of(search="optuna", trials=6), bowl)
    assert (caplog.records, optuna.logging.get_verbosity()) == ([], before)


def test_optuna_that_is_missing_is_said_how_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigurationError, match=r"headtohead\[tuning\]"):
        TUNING.read({"search": "optuna", "trials": 5})


def test_trials_of_a_space_with_few_settings_are_all_different() -> None:
    space = {"model.num_layers": {"low": 1, "high": 3, "kind": "int"}, "model.dropout": [0.0, 0.1]}
    for search in ("random", "optuna"):
        tuning = tuning_of(search=search, trials=6, space=space)
        assert len({trial.setting for trial in searched(tuning, lambda _: 1.0)}) == 6


@pytest.mark.parametrize(("trials", "factor"), [(4, math.sqrt(10)), (8, 2.0)])
@pytest.mark.parametrize("lr", [1e-3, 0.000345])
def test_the_space_nobody_gave_is_a_log_grid_around_each_arms_own_rate(trials: int, factor: float, lr: float) -> None:
    tried = searched(tuning_of(search="grid", trials=trials, lr=lr), lambda _: 1.0)
    rates = [trial.setting.values["optimizer.lr"] for trial in tried]
    assert len(rates) == trials
    assert rates.count(lr) == 1
    for lower, higher in pairwise(rates):
        assert higher / lower == pytest.approx(factor, rel=0.02)


def test_drawn_rates_that_nobody_gave_a_space_lie_where_the_grid_would() -> None:
    space = tuning_of(search="random", trials=8).space["optimizer.lr"]
    assert space == ValueRange(6.25e-5, 8e-3, "log")


def test_a_range_takes_as_many_points_as_make_up_the_trials() -> None:
    tuning = tuning_of(
        search="grid", trials=6, space={"model.dropout": [0.0, 0.1], "optimizer.lr": SPACE["optimizer.lr"]}
    )
    assert [setting.overrides for setting in proposals(tuning, [])][:3] == [
        ("model.dropout=0", "optimizer.lr=0.0001"),
        ("model.dropout=0", "optimizer.lr=0.001"),
        ("model.dropout=0", "optimizer.lr=0.01"),
    ]


def test_what_is_best_on_the_test_data_does_not_win() -> None:
    tuning = tuning_of(search="grid", trials=3)
    planted = [(0.9, 0.1), (0.5, 0.9), (0.7, 0.0)]
    tried = []
    for number, (setting, (validation, test)) in enumerate(zip(proposals(tuning, []), planted, strict=True)):
        record = RunRecord(
            id=str(number), status="finished", metrics={"validation": {"loss": validation}, "test": {"loss": test}}
        )
        assert tuning.metric is not None
        tried.append(trial_of(number, setting, [record], tuning.metric))
    won = winner(tuning, tried)
    assert won is not None
    assert (won.number, won.value) == (1, 0.5)


def test_what_diverged_ranks_below_the_worst_that_finished_whatever_its_last_value() -> None:
    tuning = tuning_of(search="grid", trials=3)
    records = [
        RunRecord(id="0", status="diverged", metrics={"validation": {"loss": 0.1}, "test": {}}),
        RunRecord(id="1", status="finished", metrics={"validation": {"loss": 9.0}, "test": {}}),
        RunRecord(id="2", status="finished", metrics={"validation": {"loss": math.inf}, "test": {}}),
    ]
    settings = proposals(tuning, [])
    tried = [
        trial_of(i, setting, [record], "validation/loss")
        for i, (setting, record) in enumerate(zip(settings, records, strict=True))
    ]
    assert winner(tuning, tried) == tried[1]
    assert winner(tuning, [tried[0], tried[2]]) is None


def test_a_setting_counts_by_the_mean_of_its_seeds_and_not_by_a_lucky_one() -> None:
    tuning = tuning_of(search="grid", trials=3, seeds=3)
    values = [(2.0, 2.0, 2.0), (0.1, 5.0, 5.0), (0.1, 0.2, None)]
    tried = []
    for number, (setting, own) in enumerate(zip(proposals(tuning, []), values, strict=True)):
        records = [
            RunRecord(id="", status="finished" if value else "diverged", metrics={"validation": {"loss": value or 0.0}})
            for value in own
        ]
        tried.append(trial_of(number, setting, records, "validation/loss"))
    assert [trial.status for trial in tried] == ["finished", "finished", "diverged"]
    assert tried[1].value == pytest.approx(10.1 / 3) and tried[2].value is None
    assert winner(tuning, tried) == tried[0]


def test_the_runs_of_a_trial_have_its_setting_and_seeds_of_their_own() -> None:
    tuning = tuning_of(search="grid", trials=3, seeds=2, seed=50)
    made: list[tuple[int, tuple[str, ...], int]] = []

    def run_of(number: int, setting: Setting, seed: int) -> RunSpec:
        made.append((number, setting.overrides, seed))
        return RunSpec("a", seed, setting.overrides, {}, f"{number}-{seed}", "s", number)

    def ended(run: RunSpec) -> RunRecord | None:
        return RunRecord(id=run.id, status="finished", metrics={"validation": {"loss": 1.0}})

    progress = progress_of(tuning, run_of, ended)
    assert [(number, seed) for number, _, seed in made] == [(0, 50), (0, 51), (1, 50), (1, 51), (2, 50), (2, 51)]
    assert [setting for _, setting, _ in made][::2] == [setting for _, setting, _ in made][1::2]
    assert progress.over and len(progress.tried) == 3 and len(progress.runs) == 6
    assert len({run.name for run in progress.runs}) == 6, "the names of a trial's runs say their seeds"
    assert {trial.number for trial in progress.tried} == {run.place.trial for run in progress.runs}
    half = progress_of(tuning, run_of, lambda run: ended(run) if run.seed == 50 else None)
    assert not half.over and not half.tried and len(half.runs) == 6


@pytest.mark.parametrize(("seed", "seeds", "fits"), [(1000, 3, True), (6, 1, False), (0, 6, False), (3, 3, False)])
def test_no_seed_of_a_trial_is_one_of_the_study(seed: int, seeds: int, fits: bool) -> None:
    tuning = tuning_of(search="grid", trials=3, seed=seed, seeds=seeds)
    sentences = list(misfits(tuning, seeds=(5, 6), offsets=(), metric="test/loss"))
    assert bool(sentences) != fits
    assert all("set tuning.seed=7" in sentence for sentence in sentences)


def test_of_equals_the_first_wins_and_larger_may_be_better() -> None:
    read = TUNING.read({"search": "grid", "trials": 3})
    assert isinstance(read, Tuning)
    tuning = for_arm(read, metric="test_4x/accuracy", direction="max", config={"optimizer": {"lr": 0.1}})
    tried = [
        Trial(i, s, "finished", v) for i, (s, v) in enumerate(zip(proposals(tuning, []), (0.5, 0.7, 0.7), strict=True))
    ]
    won = winner(tuning, tried)
    assert won is not None
    assert (tuning.metric, won.number) == ("validation/accuracy", 1)


@pytest.mark.parametrize(
    ("seed", "offsets", "fits"),
    [(2, (), False), (3, (), True), (1000, (1000,), False), (1000, (500,), True), (502, (500,), False)],
)
def test_no_run_of_the_study_has_the_seed_of_a_trial(seed: int, offsets: tuple[int, ...], fits: bool) -> None:
    message = list(misfits(Tuning("grid", 3, seed=seed), seeds=(0, 1, 2), offsets=offsets, metric="test/loss"))
    assert bool(message) != fits
    for sentence in message:
        free = int(sentence.rpartition("=")[2])
        assert not list(misfits(Tuning("grid", 3, seed=free), seeds=(0, 1, 2), offsets=offsets, metric="test/loss"))


def test_another_metric_says_what_is_better_where_its_name_does_not() -> None:
    own, accuracy, loss = (Tuning("grid", 3, metric=f"validation/{name}") for name in ("tidiness", "accuracy", "loss"))
    assert "tuning.direction" in next(misfits(own, seeds=(0,), offsets=(), metric="test/loss"))
    for known, direction in ((accuracy, "max"), (loss, "min")):
        assert not list(misfits(known, seeds=(0,), offsets=(), metric="test/perplexity"))
        arm = for_arm(known, metric="test/perplexity", direction="min", config={"optimizer": {"lr": 0.001}})
        assert arm.direction == direction


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"search": "gird", "trials": 3}, "grid or random or optuna, not gird"),
        ({"serch": "grid"}, "did you mean search"),
        ({"trials": 3}, "search: grid, random or optuna"),
        ({"search": "grid", "trials": 1}, "trials: 2 or more"),
        ({"search": "random"}, "trials: 2 or more"),
        ({"search": "random", "trials": 9, "space": {"seed_like": [1, 2]}}, "trials: 2 or fewer"),
        ({"search": "grid", "trials": 5, "space": {"a": [1, 2]}}, "they make 2, and trials=5"),
        ({"search": "grid", "trials": 5, "space": {"a": {"low": 1, "high": 2}, "b": {"low": 1, "high": 2}}}, "a and b"),
        ({"search": "grid", "trials": 3, "metric": "test/loss"}, "never on test data"),
        ({"search": "random", "trials": 3, "space": {"optimizer.lr": {"low": 0, "high": 1}}}, "below high"),
        ({"search": "random", "trials": 3, "space": {"a": {"low": 2, "high": 1}}}, "below high, not 2 and 1"),
        ({"search": "random", "trials": 3, "space": {"a": {"low": 0, "hgih": 1}}}, "did you mean high"),
        ({"search": "random", "trials": 3, "space": {"a": [1, 1]}}, "different values"),
        ({"search": "random", "trials": 3, "space": {"a": [True, "true"]}}, "different values"),
        ({"search": "random", "trials": 3, "space": ["a"]}, "space has fields"),
        (7.5, "text, or a mapping"),
    ],
)
def test_what_cannot_be_a_tuning_is_said_by_place(written: Any, message: str) -> None:
    with pytest.raises(MismatchError, match=message):
        TUNING.read(written)


def test_a_study_may_hold_a_tuning_and_refuses_what_does_not_fit_it() -> None:
    study = {
        "question": "?", "hypothesis": "!", "arms": {"a": ["model=decoder_only"], "b": ["model=encoder_only"]},
        "seeds": 3, "metric": "test/loss", "direction": "min", "baseline": "a",
    }  # fmt: skip
    read = study_from("s", {**study, "tuning": {"search": "grid", "trials": 4}})
    assert read.tuning == Tuning("grid", 4)
    for tuning, message in (
        ({"search": "grid", "trials": 4, "seed": 1}, "s: tuning.seed=1 is a seed of the study's own runs"),
        ({"search": "grid", "trails": 4}, "s: tuning=.* is refused: .* did you mean trials"),
        ({"search": "grid", "space": {"seed": [1, 2]}}, "tuning.space holds seed"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            study_from("s", {**study, "tuning": tuning})


def test_a_tuning_that_was_changed_after_registration_asks_something_else() -> None:
    tunings: list[Any] = ["none", "hardly any", {"search": "grid", "trials": 3}, {"search": "grid", "trials": 4}]
    none, message, three, four = (RegisteredDesign.of(small_study(tuning=tuning)) for tuning in tunings)
    assert not none.changed_in(message)
    assert three.changed_in(four)
    assert three.changed_in(none)


@pytest.mark.slow
def test_suggestions_follow_from_records_and_a_planner_made_anew_finds_the_same_ones(tmp_path: Path) -> None:
    def planned() -> StudyPlan:
        tuning = {"search": "optuna", "trials": 6, "space": SPACE}
        return StudyPlanner(small_study(base=[*TINY, f"output_dir={tmp_path}"], seeds=2, tuning=tuning)).plan()

    sizes = []
    while (plan := planned()).is_open:
        sizes.append(len(plan.runs))
        for run in plan.runs:
            loss = abs(math.log(run.config["optimizer"]["lr"] / 2e-3)) + run.config["model"]["dropout"]
            results = {"validation": {"loss": loss}, "test": {}}
            write_run(plan.run_folder(run), value=1.0, metrics=results, place=run.place)
    assert sizes == [8, 10, 12]
    assert len(plan.runs) == 12 + 4
    summary = summary_of(plan.tunings)
    assert summary is not None
    assert not summary.sentence.startswith("Each arm will receive")
    for arm in summary.arms:
        assert arm.best is not None
        assert set(arm.best.setting.overrides) <= set(next(c for c in plan.family if c.arm == arm.arm).overrides)
