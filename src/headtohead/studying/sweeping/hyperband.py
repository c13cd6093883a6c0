"""Hyperband as W&B sweeps have it: at some numbers of logged values a trial that is not among the best is ended
(https://arxiv.org/abs/1603.06560, https://docs.wandb.ai/guides/sweeps/sweep-config-keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_BRACKETS = 100


@dataclass(frozen=True)
class Hyperband:
    """Rules for ending trials early."""

    brackets: tuple[int, ...]
    """How often a trial has logged the metric when it is judged, ascending."""
    eta: float = 3.0
    """The best 1/eta of the trials at a bracket may go on."""
    strict: bool = False
    """Judge a trial by its value at the bracket, as the paper does, and not by its best value so far."""

    @property
    def words(self) -> str:
        shown = [str(bracket) for bracket in self.brackets[:4]]
        more = " ..." if len(self.brackets) > len(shown) else ""
        return (
            f"Hyperband ends trials that are not among the best 1/{self.eta:g} after {', '.join(shown)}{more} values "
            f"of the metric{', judged by the value there' if self.strict else ', judged by their best value so far'}"
        )

    def against(
        self, own: Sequence[float], all_of_them: Sequence[Sequence[float]], *, larger_is_better: bool
    ) -> str | None:
        """Why a trial should end now, or None; of every trial, this one among them, the values it has logged so far."""
        bracket = max((bracket for bracket in self.brackets if bracket <= len(own)), default=None)
        if bracket is None:
            return None
        best = max if larger_is_better else min
        there = [values[bracket - 1] for values in all_of_them if len(values) >= bracket]
        threshold = sorted(there, reverse=larger_is_better)[int(len(there) / self.eta)]
        value = own[bracket - 1] if self.strict else best(own)
        if best(value, threshold) == value:
            return None
        return (
            f"Hyperband, bracket {bracket}: {value:.4g} is not among the best 1/{self.eta:g} of {len(there)} trials, "
            f"{threshold:.4g}"
        )


def from_first(min_iter: int, eta: float) -> tuple[int, ...]:
    """min_iter, and each time eta times as many."""
    found = (int(min_iter * eta**power) for power in range(_MOST_BRACKETS))
    return tuple(dict.fromkeys(found))


def to_last(max_iter: int, eta: float, count: int) -> tuple[int, ...]:
    """So many, the last one max_iter / eta, each an eta-th of the next."""
    found = (int(max_iter / eta**power) for power in range(1, count + 1))
    return tuple(sorted({bracket for bracket in found if bracket >= 1}))
