"""Looking before all seeds are in, at a price: alpha spent in O'Brien and Fleming's manner after Lan and DeMets.

https://doi.org/10.1093/biomet/70.3.659. A look at few seeds may spend next to nothing: the last one keeps nearly all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

_POINTS = 1201
_REACH = 8.0
"""Standard deviations of the score that the grid covers."""


def spent(share: float, alpha: float = 0.05) -> float:
    """The two-sided error that may be used up once this share of the seeds is in."""
    from scipy import stats

    return float(4 * stats.norm.sf(stats.norm.isf(alpha / 4) / np.sqrt(share)))


def levels(looks: Sequence[int], *, alpha: float = 0.05) -> list[float]:
    """The level at which each look tests; looks are numbers of seeds, rising, the last one all that is registered."""
    if not looks or looks[0] < 1 or any(b <= a for a, b in pairwise(looks)):
        raise ValueError(f"looks={list(looks)}: give rising numbers of seeds, for example [3, 5, 8]")
    return list(_levels(tuple(looks), alpha))


@lru_cache(maxsize=128)
def _levels(looks: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """Each boundary lets through what was newly earned, among the paths that crossed none before it."""
    from scipy import optimize, stats

    shares = np.array(looks) / looks[-1]
    found, path = [], _Path(float(shares[0]))
    for k, share in enumerate(shares):
        earned = spent(share, alpha) - (spent(shares[k - 1], alpha) if k else 0.0)
        bound = _REACH  # of so small a share of the seeds that next to nothing may be spent
        if path.beyond(_REACH) < earned:
            bound = float(optimize.brentq(lambda z, path=path, earned=earned: path.beyond(z) - earned, 0.0, _REACH))
        found.append(float(2 * stats.norm.sf(bound)))
        if k + 1 < len(shares):
            path = path.after(bound, float(shares[k + 1]))
    return tuple(found)


class _Path:
    """The score at one look as a density over the last look's grid: what did not stop there, moved on by new seeds."""

    def __init__(
        self, share: float, start: float = 0.0, at: tuple[float, ...] = (0.0,), mass: tuple[float, ...] = (1.0,)
    ):
        self.share, self.start, self.at, self.mass = share, start, np.array(at), np.array(mass)

    def beyond(self, bound: float) -> float:
        """The probability that the score leaves the two-sided boundary at this look."""
        from scipy import stats

        edge, step = bound * np.sqrt(self.share), np.sqrt(self.share - self.start)
        out = stats.norm.sf((edge - self.at) / step) + stats.norm.cdf((-edge - self.at) / step)
        return float(self.mass @ out)

    def after(self, bound: float, share: float) -> _Path:
        """The paths that stayed inside, up to the next look."""
        from scipy import integrate, stats

        edge, step = bound * np.sqrt(self.share), np.sqrt(self.share - self.start)
        grid = np.linspace(-edge, edge, _POINTS)
        density = stats.norm.pdf((grid[:, None] - self.at[None, :]) / step) / step @ self.mass
        weights = integrate.simpson(np.eye(_POINTS), x=grid, axis=0)
        return _Path(share, self.share, tuple(grid), tuple(density * weights))
