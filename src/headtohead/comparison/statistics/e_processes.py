"""Evidence that may be looked at after every seed: e-processes, whose mean is at most 1 where nothing differs.

By Ville's inequality one exceeds 1 / p at any time in at most a share p of studies: 1 / max E is a p-value at every
stop (https://arxiv.org/abs/2210.01948). All are given as logarithms; the last axis holds the seeds in their order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
EFFECT_VARIANCE = 4.0
"""The variance g of the Gaussian over effects, which are measured in standard deviations of the difference."""
_BETS = (1.0, 2.0, 4.0)
"""Effects between which the sign flips are mixed: no effect from 1 to 3.2 standard deviations is found late by them."""
_PRIOR = 0.5
"""Both parameters of Jeffreys' prior over a rate, a Beta distribution."""
_ROUNDING = 1e-18
"""A spread that is no more than this share of the squared mean is rounding."""


def t_mixture(differences: ArrayLike) -> Floats:
    """Return the evidence of normal differences against the mean 0, whatever their spread: Gaussian effects against
    none (Lai 1976, https://doi.org/10.1214/aos/1176343406; Wang and Ramdas, https://arxiv.org/abs/2310.03722)."""
    values = np.asarray(differences, dtype=np.float64)
    number = np.arange(1, values.shape[-1] + 1)
    mean = values.cumsum(axis=-1) / number
    centred = values - values[..., :1]
    within = (centred**2).cumsum(axis=-1) - centred.cumsum(axis=-1) ** 2 / number
    spread = within > _ROUNDING * number * mean**2
    ratio = np.divide(number * mean**2, within, out=np.zeros_like(values), where=spread)
    shrunk = 1 + number * EFFECT_VARIANCE
    gained = number / 2 * (np.log1p(ratio) - np.log1p(ratio / shrunk)) - np.log(shrunk) / 2
    return np.where(spread & (number > 1), gained, 0.0)


def t_radius(number: int, spread: float, alpha: float) -> float:
    """Return how far the confidence sequence of a mean reaches to either side after so many differences of this
    standard deviation: all means against which the evidence stays below 1 / alpha."""
    shrunk = 1 + number * EFFECT_VARIANCE
    bound = math.exp(2 / number * (math.log(shrunk) / 2 - math.log(alpha)))
    if number < 2 or bound >= shrunk:
        return math.inf
    return math.sqrt((bound - 1) / (1 - bound / shrunk) * (number - 1) / number) * spread


def sign_flips(differences: ArrayLike) -> Floats:
    """Return the evidence against differences that are as likely to have either sign, whatever their sizes: exact,
    since arms of equal distribution are exchangeable. Each sign is bet on by its difference's size among those so far.

    An infinite difference is one to a run that diverged: it weighs as much as the largest so far.
    """
    values = _finite(np.asarray(differences, dtype=np.float64))
    scale = np.sqrt((values**2).cumsum(axis=-1) / np.arange(1, values.shape[-1] + 1))
    sized = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
    bets = [sign * effect for sign in (1, -1) for effect in _BETS]
    won = [(math.log(2) - np.logaddexp(0, -2 * bet * sized)).cumsum(axis=-1) for bet in bets]
    return np.asarray(np.logaddexp.reduce(won, axis=0) - math.log(len(bets)))


def discordant_pairs(leads: ArrayLike) -> Floats:
    """Return the evidence of paired arms against equal solve rates: 1 where the first arm alone solved the task, -1
    where the second did, 0 for both or neither. A Beta mixture over which of them it is."""
    values = np.asarray(leads, dtype=np.float64)
    won, lost = ((values * sign > 0).cumsum(axis=-1) for sign in (1, -1))
    return np.asarray((won + lost) * math.log(2) + _log_beta(won, lost) - _log_beta(np.zeros(1), np.zeros(1)))


def two_proportions(first: ArrayLike, second: ArrayLike) -> Floats:
    """Return the evidence of unpaired arms against equal solve rates, from whether each run solved the task (Turner, Ly
    and Grünwald 2024, https://arxiv.org/abs/2106.02693): each pair is bet on by the rates of those before it."""
    solved = [np.asarray(arm, dtype=np.float64) for arm in (first, second)]
    before = np.arange(solved[0].shape[-1])
    rates = [(arm.cumsum(axis=-1) - arm + _PRIOR) / (before + 2 * _PRIOR) for arm in solved]
    shared = (rates[0] + rates[1]) / 2
    gained = [
        arm * np.log(rate / shared) + (1 - arm) * np.log((1 - rate) / (1 - shared))
        for arm, rate in zip(solved, rates, strict=True)
    ]
    return np.asarray((gained[0] + gained[1]).cumsum(axis=-1))


def _log_beta(won: Floats, lost: Floats) -> Floats:
    from scipy import special

    return np.asarray(special.betaln(won + _PRIOR, lost + _PRIOR))


def _finite(values: Floats) -> Floats:
    known = np.where(np.isfinite(values), values, 0.0)
    largest = np.maximum.accumulate(np.abs(known), axis=-1)
    return np.where(np.isfinite(values), values, np.sign(values) * np.where(largest > 0, largest, 1.0))
