"""Searches try grids and draws of every distribution, the same settings in every process."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headtohead.comparison.analyses.trials import Setting, Trial
from headtohead.sweeps.sweep import Sweep
from headtohead.sweeps.sweep_plan import BATCH, as_tried, sweep_proposals
from sweeps.small_sweeps import small_sweep


def drawn(parameter: dict[str, Any], count: int = 200) -> list[Any]:
    sweep = small_sweep(method="random", run_cap=count, parameters={"x": parameter, "y": {"min": 0.0, "max": 1.0}})
    return [setting.values["x"] for setting in sweep_proposals(sweep, [])]


def test_a_grid_tries_every_combination_once_and_stops_at_the_cap() -> None:
    words = [setting.words for setting in sweep_proposals(small_sweep(), [])]
    assert words[0] == "optimizer.lr=1e-05, model/norm=layer_norm"
    assert len(set(words)) == len(words) == 4
    assert len(sweep_proposals(small_sweep(run_cap=3), [])) == 3


def test_a_grid_goes_through_whole_numbers_and_multiples() -> None:
    parameters = {"a": {"min": 1, "max": 3}, "b": {"distribution": "q_uniform", "min": 0.0, "max": 1.0, "q": 0.5}}
    result = sweep_proposals(small_sweep(parameters=parameters), [])
    assert [setting.values["a"] for setting in result[::3]] == [1, 2, 3]
    assert [setting.values["b"] for setting in result[:3]] == [0.0, 0.5, 1.0]


def test_draws_do_not_depend_on_how_many_are_asked_for() -> None:
    few, many = (
        small_sweep(method="random", run_cap=cap, parameters={"x": {"min": 0.0, "max": 1.0}}) for cap in (3, 9)
    )
    assert sweep_proposals(few, []) == sweep_proposals(many, [])[:3]


def test_random_search_over_few_settings_tries_each_once_and_ends() -> None:
    result = sweep_proposals(small_sweep(method="random", run_cap=100), [])
    assert len(result) == len(set(result)) == 4


@pytest.mark.parametrize(
    ("parameter", "low", "middle", "high"),
    [
        ({"min": 2.0, "max": 4.0}, 2, 3, 4),
        ({"min": 2, "max": 6}, 2, 4, 6),
        ({"distribution": "log_uniform_values", "min": 1e-4, "max": 1.0}, 1e-4, 1e-2, 1),
        ({"distribution": "log_uniform", "min": math.log(1e-4), "max": 0.0}, 1e-4, 1e-2, 1.0001),
        ({"distribution": "inv_log_uniform", "min": 0.0, "max": math.log(1e4)}, 0.9999e-4, 1e-2, 1.0001),
        ({"distribution": "normal", "mu": 5.0, "sigma": 0.1}, 4, 5, 6),
        ({"distribution": "log_normal", "mu": 0.0, "sigma": 0.1}, 0.5, 1, 2),
        ({"distribution": "beta", "a": 50.0, "b": 50.0}, 0.2, 0.5, 0.8),
    ],
)
def test_a_distribution_has_its_bounds_and_its_median(
    parameter: dict[str, Any], low: float, middle: float, high: float
) -> None:
    values = sorted(drawn(parameter))
    assert low <= values[0] < values[-1] <= high
    swept = small_sweep(method="random", run_cap=1, parameters={"x": parameter}).swept
    assert swept["x"].at(0.5) == pytest.approx(middle)


def test_quantised_values_are_multiples_and_whole_ones_are_whole() -> None:
    assert set(drawn({"distribution": "q_uniform", "min": 0, "max": 32, "q": 8})) == {0, 8, 16, 24, 32}
    assert set(drawn({"distribution": "q_log_uniform_values", "min": 8, "max": 64, "q": 8})) <= set(range(8, 72, 8))
    assert all(isinstance(value, int) for value in drawn({"min": 1, "max": 3}))


BOUNDS, MOMENTS, SHAPE = {"min": 1, "max": 4}, {"mu": 1, "sigma": 0.5}, {"a": 2, "b": 5}


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("categorical", {"values": [1, 2]}),
        ("categorical_w_probabilities", {"values": [1, 2], "probabilities": [0.5, 0.5]}),
        *((name, BOUNDS) for name in ("int_uniform", "uniform", "log_uniform", "inv_log_uniform")),
        *((name, BOUNDS) for name in ("log_uniform_values", "inv_log_uniform_values", "q_uniform", "q_log_uniform")),
        ("q_log_uniform_values", {**BOUNDS, "q": 2}),
        *((name, MOMENTS) for name in ("normal", "q_normal", "log_normal", "q_log_normal")),
        *((name, SHAPE) for name in ("beta", "q_beta")),
    ],
)
def test_every_distribution_of_wandb_is_drawn_from(name: str, figures: dict[str, Any]) -> None:
    values = drawn({"distribution": name, **figures}, count=20)
    assert all(math.isfinite(value) for value in values)
    if name.startswith("q_"):
        assert all(value % figures.get("q", 1) == 0 for value in values)


def test_probabilities_weigh_values() -> None:
    values = drawn({"values": ["often", "never", "seldom"], "probabilities": [0.9, 0.0, 0.1]})
    assert values.count("often") > 150 and "never" not in values and "seldom" in values


def message(sweep: Sweep, options: list[Setting], tried: list[Trial]) -> list[Trial]:
    """The nearer to 0.01 the rate, the better."""
    rates = [as_tried(sweep, setting).values["optimizer.lr"] for setting in options]
    values = [abs(math.log(float(rate or 0)) - math.log(0.01)) for rate in rates]
    return [
        Trial(len(tried) + position, setting, "finished", value)
        for position, (setting, value) in enumerate(zip(options, values, strict=True))
    ]


@pytest.mark.slow
def test_bayesian_search_learns_goes_on_alike_after_a_stop_and_ends_at_its_cap() -> None:
    rate = {"distribution": "log_uniform_values", "min": 1e-6, "max": 1.0}
    sweep = small_sweep(method="bayes", run_cap=22, parameters={"optimizer.lr": rate, "seed": {"values": [1, 2]}})
    tried: list[Trial] = []
    while options := sweep_proposals(sweep, tried):
        assert options == sweep_proposals(sweep, list(tried))
        assert len(options) <= BATCH
        tried += message(sweep, options, tried)
    assert len(tried) == 22 == len({trial.setting for trial in tried})
    drawn, searched = (sorted(trial.value or 0 for trial in part) for part in (tried[:8], tried[8:]))
    assert searched[0] < drawn[0] / 2 and searched[len(searched) // 2] < drawn[len(drawn) // 2]


def test_bayesian_search_over_few_settings_ends_when_all_were_tried() -> None:
    sweep = small_sweep(method="bayes", run_cap=50)
    tried: list[Trial] = []
    while options := sweep_proposals(sweep, tried):
        tried += message(sweep, options, tried)
    assert len(tried) == 4
