"""The time and energy of one training step, as measured in turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from statistics import median


@dataclass(frozen=True)
class StepTiming:
    """Step timing is how long a step of one arm takes, as calibrated."""

    turns: tuple[float, ...]
    """Seconds of a step in each turn."""
    device: str
    kernels: Mapping[str, str]
    """The kernels that compute each mixer that has a fast one: torch, or that kernel's package."""
    threads: int | None = None
    """The threads of the processor; None on another device."""
    joules: tuple[float, ...] = ()
    """Joules of a step in each turn; empty where nobody measured them."""

    @property
    def step_seconds(self) -> float:
        return median(self.turns)

    def uncertainty(self, other: StepTiming, *, of_energy: bool = False) -> float:
        """Half the 95 % interval of the median ratio between turns that followed each other, as a share of it: order
        statistics, which assume no distribution; of fewer than six turns, all that was seen."""
        pairs = zip(self.joules, other.joules, strict=True) if of_energy else zip(self.turns, other.turns, strict=True)
        ratios = sorted(own / others for own, others in pairs)
        cut, num_turns = 0, len(ratios)
        while 2 * sum(comb(num_turns, below) for below in range(cut + 2)) <= 0.05 * 2**num_turns:
            cut += 1
        return (ratios[num_turns - 1 - cut] - ratios[cut]) / 2 / median(ratios)
