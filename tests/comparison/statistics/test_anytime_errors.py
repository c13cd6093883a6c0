"""The error rates that docs/study.md promises of seeds that are added until it is decided: by the benchmark that made
its tables, with fewer studies."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[3] / "benchmarks" / "anytime.py"
ALPHA = 0.05


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("anytime_benchmark", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARK = loaded()


def most(studies: int) -> float:
    """Return the rate that chance exceeds in one simulation of a thousand."""
    return ALPHA + 3.1 * math.sqrt(ALPHA * (1 - ALPHA) / studies)


@pytest.mark.parametrize("shape", BENCHMARK.ARMS)
def test_equal_arms_of_any_shape_are_hardly_ever_told_apart_in_a_few_studies(shape: str) -> None:
    assert max(BENCHMARK.false_verdicts(BENCHMARK.ARMS[shape], 200)) <= most(200)


@pytest.mark.slow
@pytest.mark.parametrize("shape", BENCHMARK.ARMS)
def test_whoever_stops_where_it_suits_and_picks_the_contrast_afterwards_errs_in_5_per_cent_at_most(shape: str) -> None:
    assert max(BENCHMARK.false_verdicts(BENCHMARK.ARMS[shape], 5000)) <= ALPHA


@pytest.mark.slow
def test_looks_at_a_t_test_err_far_more_often_which_is_what_the_evidence_prevents() -> None:
    """The same looks, at p-values of Student's test: the simulation would show an error."""
    import numpy as np
    from scipy import stats

    differences = np.random.default_rng(0).normal(size=(2000, 30))
    result = [stats.ttest_1samp(differences[:, :number], 0, axis=1).pvalue <= ALPHA for number in range(2, 31)]
    assert np.any(result, axis=0).mean() > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_equal_solve_rates_are_told_apart_in_5_per_cent_at_most(rate: float) -> None:
    assert max(BENCHMARK.false_rates(rate, 5000)) <= ALPHA


@pytest.mark.slow
def test_unequal_shapes_of_equal_means_are_told_apart_which_the_page_warns_of() -> None:
    alone, both = BENCHMARK.unequal_shapes(BENCHMARK.ZERO_MEANS["bimodal 90/10"], 2000)
    assert alone > both > ALPHA


@pytest.mark.slow
def test_the_price_is_that_of_the_page() -> None:
    median, by_ten, by_twenty = BENCHMARK.price(1.66, 1, 2000)
    assert median == 7 and 0.8 < by_ten < 0.9 and by_twenty > 0.99
    decided, futile, _ = BENCHMARK.conducted(0.0, 100)
    assert decided <= most(100) and futile > 0.9
