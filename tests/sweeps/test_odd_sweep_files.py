"""Sweep files with odd values in any field are refused in a sentence, or come to numbers that a run can have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.sweeps.distributions import CURVES, QUANTISED, WeightedValues
from headtohead.sweeps.read_sweep_file import read_sweep
from headtohead.sweeps.sweep import Sweep
from headtohead.sweeps.sweep_plan import Sweeper, sweep_proposals
from sweeps.small_sweeps import WRITTEN, small_sweep, tiny, written_sweep

FIGURES = {"min": 1, "max": 4, "mu": 1, "sigma": 0.5, "a": 2, "b": 5, "q": 1}
ODD: tuple[Any, ...] = (
    None, True, "", "abc", "1e-4", 0, -1, 1, 2.5, 1.0000001, 2000, 10**9, 10**30, 10**400, 1e-320, 1e300, -1e308,
    math.inf, -math.inf, math.nan, [], [1, 2], [math.nan], {}, {"value": 1}, {1: 2}, "${x}", "a,b",
)  # fmt: skip
CHANCES = (0.0, 1e-9, 0.37, 0.5, 1 - 1e-9, 1.0)


def _entries() -> dict[str, dict[str, Any]]:
    """A parameter of each distribution, with every figure that it takes."""
    entries: dict[str, dict[str, Any]] = {
        "constant": {"value": 1},
        "categorical": {"values": [1, 2], "probabilities": [0.5, 0.5]},
        "int_uniform": {"min": 1, "max": 4},
    }
    for name in (*CURVES, *(f"q_{name}" for name in QUANTISED)):
        own = (*CURVES[name.removeprefix("q_")][1], *(["q"] if name.startswith("q_") else []))
        entries[name] = {"distribution": name, **{key: FIGURES[key] for key in own}}
    return entries


def _paths(node: object, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, below in entries:
        yield from _paths(below, (*above, key))


def _mutants(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in list(_paths(content)):
        for odd in ODD:
            mutant = deepcopy(content)
            node: Any = mutant
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = odd
            yield mutant


def _check(sweep: Sweep) -> None:
    for entry in sweep.parameters.values():
        if not isinstance(entry, WeightedValues):
            assert all(math.isfinite(float(entry.at(chance) or 0)) for chance in CHANCES), entry
    if sweep.hyperband is not None:
        brackets = sweep.hyperband.brackets
        assert brackets and list(brackets) == sorted(set(brackets)) and brackets[0] >= 1
    if sweep.run_cap is None or sweep.run_cap <= 3:
        assert sweep.method == "bayes" or sweep_proposals(sweep, [])


def _check_mutants(content: dict[str, Any]) -> None:
    for mutant in _mutants(content):
        try:
            sweep = small_sweep(**mutant)
        except ConfigurationError as error:
            assert "\n" not in str(error)
        else:
            _check(sweep)


@pytest.mark.parametrize("name", _entries())
def test_an_odd_value_of_a_distribution_is_refused_in_a_sentence_or_comes_to_numbers(name: str) -> None:
    _check_mutants({"method": "random", "run_cap": 3, "parameters": {"x": _entries()[name], "y": {"values": [1, 2]}}})


@pytest.mark.parametrize(
    "stopping", [{"min_iter": 3, "eta": 3}, {"min_iter": 3, "eta": 3.5}, {"max_iter": 27, "s": 2, "eta": 3}]
)
def test_an_odd_value_of_any_other_field_is_refused_in_a_sentence_or_comes_to_numbers(stopping: dict[str, Any]) -> None:
    _check_mutants({**WRITTEN, "run_cap": 3, "early_terminate": {"type": "hyperband", "strict": True, **stopping}})


@pytest.mark.parametrize("low", [0, 1, 3, 0.05, -1, -0.3])
@pytest.mark.parametrize("step", [1, 2, 10, 0.1, 0.25])
def test_a_grid_goes_from_the_lower_bound_on_in_even_steps(low: float, step: float) -> None:
    parameter = {"distribution": "q_uniform", "min": low, "max": low + 4.5 * step, "q": step}
    points = small_sweep(parameters={"x": parameter}).swept["x"].points
    assert points == pytest.approx([low + index * step for index in range(5)])


def test_a_value_is_left_out_where_another_makes_the_same_run_and_true_is_not_one() -> None:
    """Python holds 1, 1.0 and true to be equal."""
    values = [1, 1.0, True, 1, "true", 0, False, None, "null", 2]
    sweep = small_sweep(method="grid", parameters={"x": {"values": values}, "y": {"value": 1}})
    written_points = [setting.overrides[0] for setting in sweep_proposals(sweep, [])]
    assert written_points == ["x=1", "x=true", "x=0", "x=false", "x=null", "x=2"]
    assert len(set(sweep_proposals(sweep, []))) == len(written_points)


@pytest.mark.parametrize("name", ["a sweep (1)", "a,b", "lr=1", "it's", "a[1]", "${x}", "null", "0.1", "é"])
def test_a_file_of_any_name_can_be_run(tmp_path: Path, name: str) -> None:
    file = written_sweep(tmp_path).rename(tmp_path / f"{name}.yaml")
    plan = Sweeper(read_sweep(file, tiny(tmp_path))).plan
    assert plan.folder == tmp_path / "sweeps" / name
    assert [run.config["group"] for run in plan.runs] == [name] * 4
    assert [run.config["name"] for run in plan.runs] == [f"{name}-t{number}" for number in range(4)]
