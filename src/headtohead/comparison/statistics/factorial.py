"""Main effects and interactions of two factors as weights of the cells of a design, by least squares.

The model has a mean, an effect for each level and one for each pair of levels of two factors; a contrast of these is
estimable where it lies in the space that the rows of the design span
(Searle, Linear Models, 1971, section 5.4; https://www.jstor.org/stable/1266725 for the aliases of fractions).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Cell = Mapping[str, str]
"""A cell: the level of each factor."""
Pair = frozenset[str]
"""Two factors."""
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Effect:
    """An effect of one factor is its level against the base's, averaged over the others; of two factors it is by how
    much one's effect at the other's level differs from that at the other's base."""

    levels: tuple[tuple[str, str], ...]
    """Factor and level, once or twice."""

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(factor for factor, _ in self.levels)

    @property
    def name(self) -> str:
        return " x ".join(f"{factor}={level}" for factor, level in self.levels)


@dataclass(frozen=True)
class Estimator:
    """An estimator says how an effect is computed from the cells."""

    effect: Effect
    weights: Floats | None
    """The weights of each cell; None where the cells do not tell."""
    aliases: tuple[Effect, ...] = ()
    """The aliases: with weights, what is taken to be zero for their sake; without, what cannot be told apart from
    it."""


class Design:
    """Cells that were run, of factors whose first level is the base's."""

    def __init__(self, factors: Mapping[str, Sequence[str]], cells: Sequence[Cell]) -> None:
        self.factors, self.cells = factors, cells
        self.main_effects = [Effect(((f, level),)) for f, levels in factors.items() for level in levels[1:]]
        self.interactions = [
            Effect(((f, one), (g, other)))
            for f, g in combinations(factors, 2)
            for one, other in product(factors[f][1:], factors[g][1:])
        ]

    def estimators(self, *, interactions: bool = True) -> list[Estimator]:
        """Main effects, then interactions; interactions that a main effect hides behind are taken to be zero."""
        pairs = {frozenset(effect.factors) for effect in self.interactions} if interactions else set()
        whole = _Model(self, pairs)
        effects = [*self.main_effects, *(self.interactions if interactions else ())]
        return [self._estimator(whole, effect) for effect in effects]

    def _estimator(self, whole: _Model, effect: Effect) -> Estimator:
        weights = whole.weights(effect)
        aliases = () if weights is not None else tuple(whole.aliases(effect))
        if weights is not None or len(effect.levels) > 1:
            return Estimator(effect, weights, aliases)
        hidden = {frozenset(alias.factors) for alias in aliases if len(alias.levels) > 1}
        for pairs in (whole.pairs - hidden, set[Pair]()):
            weights = _Model(self, pairs).weights(effect)
            if weights is not None:
                zero = [e for e in self.interactions if frozenset(e.factors) in whole.pairs - pairs]
                return Estimator(effect, weights, tuple(e for e in zero if e in aliases or not pairs))
        return Estimator(effect, None, tuple(alias for alias in aliases if len(alias.levels) == 1))


class _Model:
    """The mean, all main effects and the interactions of some pairs, each coded so that its levels sum to zero."""

    def __init__(self, design: Design, pairs: Collection[Pair]) -> None:
        self.pairs = set(pairs)
        self._effects = [*design.main_effects, *(e for e in design.interactions if frozenset(e.factors) in self.pairs)]
        self._factors = design.factors
        rows = np.array([[1.0, *(self._coded(effect, cell) for effect in self._effects)] for cell in design.cells])
        self._inverse = np.linalg.pinv(rows)
        self._hidden = np.eye(rows.shape[1]) - self._inverse @ rows

    def weights(self, effect: Effect) -> Floats | None:
        contrast = self._contrast(effect)
        if np.abs(self._hidden @ contrast).max() > _ROUNDING:
            return None
        weights = contrast @ self._inverse
        return np.where(np.abs(weights) > _ROUNDING, weights, 0.0)

    def aliases(self, effect: Effect) -> list[Effect]:
        """Return the other effects that change together with this one in every cell."""
        together = self._hidden @ self._contrast(effect)
        others = [other for other in self._effects if other != effect]
        return [other for other in others if abs(float(self._contrast(other) @ together)) > _ROUNDING]

    def _coded(self, effect: Effect, cell: Cell) -> float:
        return float(np.prod([self._code(factor, level, cell[factor]) for factor, level in effect.levels]))

    def _code(self, factor: str, level: str, level_here: str) -> float:
        return 1.0 if level_here == level else -1.0 if level_here == self._factors[factor][0] else 0.0

    def _contrast(self, effect: Effect) -> Floats:
        """Return the effect from the free numbers: that of a base level is minus the sum of the others."""
        contrast = np.zeros(1 + len(self._effects))
        for index, other in enumerate(self._effects, start=1):
            if other.factors == effect.factors:
                alike = zip(other.levels, effect.levels, strict=True)
                contrast[index] = np.prod([1.0 + (theirs == ours) for theirs, ours in alike])
        return contrast
