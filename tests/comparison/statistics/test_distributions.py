"""Tails and quantiles: scipy.stats's own to the last bit, without its import."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import stats

from headtohead.comparison import statistics
from headtohead.comparison.statistics.distributions import (
    chi_squared_quantile,
    norm_isf,
    norm_sf,
    t_isf,
    t_sf,
)
from headtohead.comparison.statistics.multiple_testing import adjusted

FOLDER = Path(statistics.__path__[0])
DEGREES = np.array([1.0, 2.0, 3.7, 11.0, 250.0, 1e6, np.inf, np.nan])
SHARES = np.array([0.0, 1e-12, 1e-4, 0.025, 0.3, 0.5, 0.9, 1.0])
VALUES = np.array([-np.inf, -40.0, -1.5, 0.0, 0.3, 2.5, 12.0, np.inf, np.nan])


def test_tails_and_quantiles_are_scipys() -> None:
    np.testing.assert_array_equal(t_sf(VALUES[:, None], DEGREES), stats.t.sf(VALUES[:, None], DEGREES))
    np.testing.assert_array_equal(t_isf(SHARES[:, None], DEGREES), stats.t.isf(SHARES[:, None], DEGREES))
    np.testing.assert_array_equal(norm_sf(VALUES), stats.norm.sf(VALUES))
    np.testing.assert_array_equal(norm_isf(SHARES), stats.norm.isf(SHARES))
    whole = DEGREES[:5]
    ours, theirs = chi_squared_quantile(SHARES[:, None], whole), stats.chi2.ppf(SHARES[:, None], whole)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_the_false_discovery_rate_is_controlled_as_scipy_does() -> None:
    rng = np.random.default_rng(0)
    for number in (1, 2, 7, 40):
        family = np.round(rng.random(number) ** 3, 2)  # with ties
        ours = adjusted(list(family), "benjamini_hochberg")
        np.testing.assert_array_equal(ours, stats.false_discovery_control(family))


def test_what_every_verdict_needs_does_not_import_scipys_stats() -> None:
    """Exact tests of rates and ranks, and figures over several tasks, may."""
    importing = {path.name for path in FOLDER.glob("*.py") if "from scipy import stats" in path.read_text()}
    assert importing == {"bootstrap.py", "exact_tests.py"}
