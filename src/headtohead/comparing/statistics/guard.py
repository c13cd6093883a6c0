"""The exact test that stands beside a t-test, and the seeds from which on it can: t-tests assume a shape that few seeds
cannot show, and an exact test of few seeds cannot fall below any level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headtohead.comparing.statistics.exact import smallest_p

FEWEST = 6
"""Seeds below which no exact test of paired signs falls below 5 %."""


@dataclass(frozen=True)
class Guard:
    """An exact test of so many seeds."""

    num_seeds: tuple[int, int]
    """Of both arms."""
    alpha: float
    """The error rate of the study."""
    level: float
    """What a p-value has to stay below whatever the rest of the family says, at this look."""
    paired: bool = True

    @property
    def takes_part(self) -> bool:
        """Whether it can agree at all."""
        return min(self.num_seeds) >= FEWEST and self._least < self.alpha

    @property
    def suffices(self) -> bool:
        """Whether it can decide by itself, so that no shape needs to be assumed."""
        return self.takes_part and self._least < self.level

    def agrees(self, p: ArrayLike) -> NDArray[np.bool_]:
        """Return where it does: at the family's level, or at the study's where it can reach no other."""
        return np.asarray(p) < (self.level if self.suffices else self.alpha)

    @property
    def _least(self) -> float:
        return smallest_p(*self.num_seeds, paired=self.paired)
