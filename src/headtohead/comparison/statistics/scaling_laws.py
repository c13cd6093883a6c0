"""Scaling laws: loss as a power law of size, tokens or FLOPs (https://arxiv.org/abs/2001.08361), or of size and tokens
together with the compute-optimal frontier that follows (https://arxiv.org/abs/2203.15556).

Every point is the end of a run with a schedule of its own. Fits are least squares of the logarithm with Huber's loss,
from several starts. Intervals are percentiles over residuals redrawn, which are made larger first: by what the fit
has taken from them, and by as much as Student's t is wider than the normal for so few points. A floor that is fitted at
zero keeps all redrawn ones there, and exponents too low with it: then the points set no upper bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from headtohead.comparison.statistics.distributions import Floats, norm_isf, t_isf
from headtohead.errors import UsageError

HUBER = 2.0
"""Residuals, in robust standard deviations, beyond which a point pulls no harder: of normal ones, one in twenty."""
STEEPEST, _FAR = 5.0, 30.0
"""Bounds of exponents and of logarithms."""
_INSIDE, _SETTLED = 1e-6, 1e-10
"""The distance from its bounds at which a fit starts, and the relative change at which it ends."""


class SumOfPowers:
    """log(exp(f) + sum_i exp(s_i - e_i x_i)) at places x [terms, points]; the free numbers are f, s_1, e_1, s_2, ..."""

    def __init__(self, at: Floats) -> None:
        self._at = at
        self._upper = np.full(1 + 2 * len(at), _FAR)
        self._upper[2::2] = STEEPEST
        self._lower = -self._upper
        self._lower[2::2] = 0.0

    def __call__(self, free: Floats) -> Floats:
        """[points] from one set of free numbers."""
        return np.asarray(np.logaddexp.reduce(self._parts(free), axis=0))

    def fitted(self, values: Floats, start: Floats, unit: float | None = None) -> Floats:
        """Return the free numbers that fit the values best, found from a start."""
        from scipy.optimize import least_squares

        solution = least_squares(
            lambda free: self(free) - values,
            np.clip(start, self._lower + _INSIDE, self._upper - _INSIDE),
            self._slopes,
            bounds=(self._lower, self._upper),
            loss="linear" if unit is None else "huber",
            f_scale=1.0 if unit is None else HUBER * unit,
            x_scale="jac",
            xtol=_SETTLED,
            ftol=_SETTLED,
            max_nfev=200,
        )
        return np.asarray(solution.x)

    def _slopes(self, free: Floats) -> Floats:
        """[points, free]."""
        parts = self._parts(free)
        shares = np.exp(parts - np.logaddexp.reduce(parts, axis=0))
        slopes = np.empty((parts.shape[1], len(free)))
        slopes[:, 0] = shares[0]
        slopes[:, 1::2] = shares[1:].T
        slopes[:, 2::2] = -(shares[1:] * self._at).T
        return slopes

    def _parts(self, free: Floats) -> Floats:
        """[1 + terms, points]."""
        powers = free[1::2, None] - free[2::2, None] * self._at
        return np.vstack([np.full((1, powers.shape[1]), free[0]), powers])


_EXPONENTS = (0.1, 0.3, 0.7)
_FLOORS = (0.05, 0.5, 0.9)
"""The exponents, and the shares of the smallest loss that no scale removes, at which fits start."""
_ROUNDS = 4
"""The rounds of weighing outliers less and measuring the others' spread again."""
_EXACT = 1e-9
_ALONE, _JOINT = 3, 5
"""Free numbers of each law."""
FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
_NOTHING = 1e-6
_NO_FLOOR = 1e-3
"""The share of the least loss below which a floor is at the edge of what is fitted."""


@dataclass(frozen=True)
class FittedValue:
    """A number of the law with its bootstrap interval."""

    value: float
    low: float
    high: float | None
    """Return None where the points set no upper bound."""

    @property
    def words(self) -> str:
        """A floor at the edge of what is fitted is none."""
        value, low = (0.0 if abs(part) < _NOTHING else part for part in (self.value, self.low))
        return f"{value:.3g} [{low:.3g}, {'no bound' if self.high is None else f'{self.high:.3g}'}]"


@dataclass(frozen=True)
class PowerLaw:
    """loss = floor + scale * x ** -exponent."""

    floor: FittedValue
    scale: FittedValue
    exponent: FittedValue

    def __call__(self, x: ArrayLike) -> Floats:
        return self.floor.value + self.scale.value * np.asarray(x, dtype=np.float64) ** -self.exponent.value


@dataclass(frozen=True)
class JointLaw:
    """loss = floor + scale * parameters ** -exponent + token_scale * tokens ** -token_exponent."""

    floor: FittedValue
    scale: FittedValue
    exponent: FittedValue
    token_scale: FittedValue
    token_exponent: FittedValue
    frontier_exponent: FittedValue
    """The best number of parameters grows with this power of the FLOPs, tokens with 1 minus it."""
    redrawn: Floats = field(repr=False, compare=False)
    """The free numbers of each redrawn set, in the order above."""
    alpha: float = 0.05

    def __call__(self, parameters: ArrayLike, tokens: ArrayLike) -> Floats:
        by_size = self.scale.value * np.asarray(parameters, dtype=np.float64) ** -self.exponent.value
        by_tokens = self.token_scale.value * np.asarray(tokens, dtype=np.float64) ** -self.token_exponent.value
        return np.asarray(self.floor.value + by_size + by_tokens)

    def optimum(self, flops: ArrayLike, *, per_token: float = FLOPS_PER_PARAMETER_AND_TOKEN) -> tuple[Floats, Floats]:
        """Parameters and tokens of the least loss at these FLOPs, where a token costs per_token FLOPs a parameter."""
        free = (self.floor, self.scale, self.exponent, self.token_scale, self.token_exponent)
        return _optimum(np.array([each.value for each in free]), np.asarray(flops, dtype=np.float64) / per_token)

    def frontier(
        self, flops: float, *, per_token: float = FLOPS_PER_PARAMETER_AND_TOKEN
    ) -> tuple[FittedValue, FittedValue]:
        """Return the optimum with its intervals."""
        best = self.optimum(flops, per_token=per_token)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # redrawn exponents may be 0
            others = _optimum(self.redrawn.T, np.asarray(flops / per_token, dtype=np.float64))
        ends = [np.quantile(each, [self.alpha / 2, 1 - self.alpha / 2]) for each in others]
        parameters, tokens = (FittedValue(float(b), float(e[0]), float(e[1])) for b, e in zip(best, ends, strict=True))
        return parameters, tokens


def _optimum(free: Floats, products: Floats) -> tuple[Floats, Floats]:
    _, scale, a, token_scale, b = free
    balance = (a * scale / (b * token_scale)) ** (1 / (a + b))
    parameters = balance * products ** (b / (a + b))
    return parameters, products / parameters


def power_law(x: ArrayLike, loss: ArrayLike, *, samples: int = 400, seed: int = 0, alpha: float = 0.05) -> PowerLaw:
    """Fitted to points at four different x or more."""
    result = _fit(_terms(x, 4), _losses(loss, _ALONE), _Redrawn(samples, seed, alpha))
    return PowerLaw(*_fitted(result, np.asarray(loss, dtype=np.float64), alpha))


def joint_law(
    parameters: ArrayLike, tokens: ArrayLike, loss: ArrayLike, *, samples: int = 400, seed: int = 0, alpha: float = 0.05
) -> JointLaw:
    """Fitted to points that vary both, apart from each other."""
    log_x = np.concatenate([_terms(parameters, 3), _terms(tokens, 3)])
    result = _fit(log_x, _losses(loss, _JOINT), _Redrawn(samples, seed, alpha))
    share = result[:, 4] / (result[:, 2] + result[:, 4])
    floor, scale, exponent, token_scale, token_exponent, frontier = _fitted(
        np.column_stack([result, share]), np.asarray(loss, dtype=np.float64), alpha
    )
    return JointLaw(floor, scale, exponent, token_scale, token_exponent, frontier, result[1:], alpha)


@dataclass(frozen=True)
class _Redrawn:
    """Resampling settings say how often residuals are redrawn, and the level of the intervals."""

    samples: int
    seed: int
    alpha: float

    def losses(self, predicted: Floats, residuals: Floats, degrees: int) -> Floats:
        """Return losses with resampled residuals, which are scaled for these degrees of freedom."""
        wider = float(t_isf(self.alpha / 2, degrees) / norm_isf(self.alpha / 2))
        larger = residuals * np.sqrt(len(residuals) / degrees) * wider
        return predicted + np.random.default_rng(self.seed).choice(larger, (self.samples, len(larger)))


def _terms(x: ArrayLike, fewest: int) -> Floats:
    sizes = np.asarray(x, dtype=np.float64)
    if (sizes <= 0).any() or len(np.unique(sizes)) < fewest:
        raise UsageError(f"this law needs sizes above 0, at least {fewest} different ones on each axis")
    return np.log(sizes)[None]


def _losses(loss: ArrayLike, free: int) -> Floats:
    losses = np.asarray(loss, dtype=np.float64)
    if len(losses) <= free:
        raise UsageError(f"{len(losses)} points for {free} free numbers: give {free + 1} runs or more")
    if not (np.isfinite(losses) & (losses > 0)).all():
        raise UsageError("loss: finite numbers above 0 are needed; a run that diverged is not a point of a law")
    return np.log(losses)


def _fit(log_x: Floats, log_loss: Floats, redrawn: _Redrawn) -> Floats:
    """Return the fit, then one row for each redrawn set; columns floor, scale, exponent (, scale, exponent)."""
    centre = log_x.mean(axis=1, keepdims=True)
    at = log_x - centre
    law = SumOfPowers(at)
    starts = _starts(log_loss, len(at))
    plain = [law.fitted(log_loss, start) for start in starts]
    best = min(plain, key=lambda free: float(np.square(law(free) - log_loss).sum()))
    degrees = len(log_loss) - len(best)
    freed = np.sqrt(len(log_loss) / degrees)
    for _ in range(_ROUNDS):
        unit = max(1.4826 * freed * float(np.median(np.abs(law(best) - log_loss))), _EXACT)
        best = law.fitted(log_loss, best, unit)
    predicted = law(best)
    others = redrawn.losses(predicted, log_loss - predicted, degrees)
    rows = np.stack([best, *(law.fitted(other, best, unit) for other in others)])
    # back from the middle of the data to x = 1
    natural = np.empty_like(rows)
    natural[:, 0] = np.exp(rows[:, 0])
    natural[:, 1::2] = np.exp(rows[:, 1::2] + rows[:, 2::2] * centre[:, 0])
    natural[:, 2::2] = rows[:, 2::2]
    return natural


def _starts(log_loss: Floats, spec: int) -> Floats:
    least, middle = np.exp(log_loss.min()), np.exp(np.median(log_loss))
    starts = []
    for share, exponents in product(_FLOORS, product(_EXPONENTS, repeat=spec)):
        rest = np.log((middle - share * least) / spec)
        starts.append([np.log(share * least), *(part for e in exponents for part in (rest, e))])
    return np.array(starts)


def _fitted(rows: Floats, losses: Floats, alpha: float) -> list[FittedValue]:
    low, high = np.quantile(rows[1:], [alpha / 2, 1 - alpha / 2], axis=0)
    bounded = rows[0, 0] > _NO_FLOOR * losses.min()
    ends = zip(rows[0], low, high, strict=True)
    return [FittedValue(float(value), float(least), float(most) if bounded else None) for value, least, most in ends]
