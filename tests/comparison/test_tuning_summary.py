"""A tuning's summary says how it ended, whether the best lies on an edge, and what fewer trials would have given."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import combinations
from statistics import fmean

import pytest

from headtohead.comparison.analyses.trials import Setting, Space, Trial, ValueChoices, ValueRange
from headtohead.comparison.analyses.tuning_summary import TuningDesign, edges_of, tuning_summary

RATE = "optimizer.lr"
DESIGN = TuningDesign("grid", 5, "validation/loss", "min", seed=1000)
RATES: Space = {RATE: ValueChoices((1e-4, 3e-4, 1e-3, 3e-3, 1e-2))}


def trials_of(values: Sequence[float | None], space: Space = RATES, status: str = "diverged") -> list[Trial]:
    dimension = space[RATE]
    assert isinstance(dimension, ValueChoices)
    return [
        Trial(number, Setting(((RATE, rate),)), status if value is None else "finished", value, flops=10.0)
        for number, (rate, value) in enumerate(zip(dimension.values, values, strict=False))
    ]


def test_what_diverged_and_what_failed_are_counted_apart_and_cost_as_much() -> None:
    tried = trials_of([3.0, 2.0, None, 2.5])
    tried.append(replace(tried[2], number=4, status="failed"))
    (arm,) = tuning_summary(DESIGN, {"a": (RATES, tried)}).arms
    assert (arm.finished, arm.diverged, arm.failed, arm.flops) == (2 + 1, 1, 1, 50.0)
    assert arm.best == tried[1]


def test_the_summary_can_be_written_as_json() -> None:
    summary = tuning_summary(DESIGN, {"a": (RATES, trials_of([None, 2.0, 3.0, None, None]))})
    assert json.loads(json.dumps(asdict(summary), allow_nan=False))["arms"][0]["best_of_k"][:3] == [None, None, None]


@pytest.mark.parametrize(
    ("values", "sides"), [([3, 2, 1, 2, 3], []), ([1, 2, 3, 4, 5], ["lowest"]), ([5, 4, 3, 2, 1], ["highest"])]
)
def test_a_best_rate_at_the_end_of_the_grid_is_flagged_and_one_inside_is_not(
    values: list[float], sides: list[str]
) -> None:
    summary = tuning_summary(DESIGN, {"a": (RATES, trials_of(values))})
    assert [edge.side for edge in summary.arms[0].edges] == sides
    assert len(summary.remarks) == len(sides)
    assert all(
        "widen the space (tuning.space)" in remark and "a: the best optimizer.lr" in remark
        for remark in summary.remarks
    )


def test_a_best_rate_below_divergences_is_on_no_edge() -> None:
    assert not tuning_summary(DESIGN, {"a": (RATES, trials_of([4, 3, 2, None, None]))}).remarks


@pytest.mark.parametrize(
    ("rate", "sides"), [(1.02e-4, ["lowest"]), (2e-4, []), (1e-3, []), (6e-3, []), (9.5e-3, ["highest"])]
)
def test_of_ten_draws_the_outer_twentieths_of_a_log_range_are_its_edges(rate: float, sides: list[str]) -> None:
    space = {RATE: ValueRange(1e-4, 1e-2, "log")}
    assert [edge.side for edge in edges_of(space, Setting(((RATE, rate),)), 10)] == sides


def test_zero_and_names_and_the_only_value_are_no_edges() -> None:
    space: Space = {
        "model.dropout": ValueChoices((0, 0.1, 0.2)),
        "schedule": ValueChoices(("cosine", "linear")),
        "model.tied": ValueChoices((True, False)),
        "seed_like": ValueChoices((3,)),
        "model.num_layers": ValueRange(1, 4, kind="int"),
    }
    best = Setting(
        (("model.dropout", 0), ("schedule", "cosine"), ("model.tied", True), ("seed_like", 3), ("model.num_layers", 2))
    )
    assert not list(edges_of(space, best, 8))


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_expected_best_of_k_is_the_mean_over_every_choice_of_k(direction: str) -> None:
    values = [2.0, None, 3.5, 1.0, None, 7.0]
    larger = direction == "max"
    worst = -math.inf if larger else math.inf
    known = [worst if value is None else value for value in values]
    space = {RATE: ValueChoices(tuple(0.1 * 2**i for i in range(6)))}
    design = replace(DESIGN, direction="max" if larger else "min")
    (arm,) = tuning_summary(design, {"a": (space, trials_of(values, space))}).arms
    for k, expected in enumerate(arm.best_of_k, start=1):
        best = fmean((max if larger else min)(chosen) for chosen in combinations(known, k))
        assert expected is None if math.isinf(best) else expected == pytest.approx(best)


def test_how_much_tuning_each_number_received_is_said() -> None:
    tried = trials_of([3, 2, 1, 2, None])
    summary = tuning_summary(DESIGN, {"a": (RATES, tried), "b": (RATES, tried)})
    assert summary.sentence.startswith("Each arm received 5 trials, a grid over the same space, with seed 1000;")
    assert summary.sentences[0] == (
        "a: 5 of 5 trials over optimizer.lr one of 0.0001, 0.0003, 0.001, 0.003, 0.01, 4 finished, 1 diverged; "
        "optimizer.lr=0.001 was best, validation/loss 1."
    )
    others: Space = {RATE: ValueChoices((1e-3, 3e-3, 1e-2, 3e-2, 1e-1))}
    apart = tuning_summary(DESIGN, {"a": (RATES, tried), "b": (others, trials_of([3, 2, 1, 2, 3], others))})
    assert "around its own learning rate" in apart.sentence


def test_arms_that_had_different_numbers_of_trials_are_not_said_to_be_tuned_alike() -> None:
    tried = trials_of([3, 2, 1, 2, 3])
    summary = tuning_summary(DESIGN, {"a": (RATES, tried), "b": (RATES, tried[:3])})
    assert summary.sentence == "Each arm will receive 5 trials; so far a 5, b 3."


def test_an_arm_of_which_no_trial_finished_is_said() -> None:
    summary = tuning_summary(DESIGN, {"a": (RATES, trials_of([None] * 5))})
    assert summary.arms[0].best is None
    assert "none of 5 trials finished" in summary.remarks[0]
