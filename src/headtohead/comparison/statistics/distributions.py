"""Tails and quantiles of the distributions that tests rest on: those of scipy.stats to the last bit, whose import takes
half a second that a command with a handful of verdicts would mostly consist of.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def t_sf(value: ArrayLike, degrees: ArrayLike) -> Floats:
    """Return the probability that Student's t is above the value."""
    from scipy import special

    return np.asarray(special.stdtr(degrees, np.negative(value)))


def t_isf(share: ArrayLike, degrees: ArrayLike) -> Floats:
    """Return the value that Student's t exceeds with this probability."""
    from scipy import special

    quantile = np.negative(special.stdtrit(degrees, share))
    return np.where(np.equal(share, 0) & ~np.isnan(quantile), np.inf, quantile)  # of 0, stdtrit has the sign wrong


def norm_sf(value: ArrayLike) -> Floats:
    """Return the probability that a standard normal value is above this one."""
    from scipy import special

    return np.asarray(special.ndtr(np.negative(value)))


def norm_isf(share: ArrayLike) -> Floats:
    """Return the value that a standard normal one exceeds with this probability."""
    from scipy import special

    return np.asarray(np.negative(special.ndtri(share)))


def chi_squared_quantile(share: ArrayLike, degrees: ArrayLike) -> Floats:
    """Return the value that a sum of so many squared normal values stays below with this probability."""
    from scipy import special

    return np.asarray(2 * special.gammaincinv(np.divide(degrees, 2), share))
