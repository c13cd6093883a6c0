"""Roots: scipy's own to the last bit, in as many steps, without its import."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize

from headtohead.comparison.statistics.power import brent_root

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "line": lambda x: 3 * x - 1,
    "cubic": lambda x: (x - 0.3) ** 3 + x - 0.3,
    "steep": lambda x: math.tanh(40 * (x - 0.9)),
    "oscillating": lambda x: math.cos(7 * x) + x - 2,
    "steps": lambda x: math.floor(10 * x) / 10 - 0.65,
    "flat": lambda x: x**9 - 1e-5,
    "root at an end": lambda x: x,
}


@pytest.mark.parametrize("tolerance", [1e-4, 1e-12])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_root_is_scipys(name: str, tolerance: float) -> None:
    calls: list[float] = []

    def counted(x: float) -> float:
        calls.append(x)
        return FUNCTIONS[name](x)

    expected, report = optimize.brentq(FUNCTIONS[name], 0.0, 2.0, xtol=tolerance, full_output=True)
    assert brent_root(counted, 0.0, 2.0, tolerance) == expected
    assert len(calls) == report.function_calls


def test_drawn_polynomials_have_scipys_roots() -> None:
    for coefficients in np.random.default_rng(0).normal(size=(200, 5)).tolist():

        def polynomial(x: float, own: list[float] = coefficients) -> float:
            return sum(factor * x**power for power, factor in enumerate(own))

        if polynomial(-1.5) * polynomial(2.0) < 0:
            assert brent_root(polynomial, -1.5, 2.0, 1e-4) == optimize.brentq(polynomial, -1.5, 2.0, xtol=1e-4)
