"""The bytes that weights, gradients and optimizer take: the one owner of the formula, for checks and for plans."""

from __future__ import annotations

from dataclasses import dataclass

from headtohead.training.optim.optimizers import STATES

_OF_UPDATE = {"lion": 1, "muon": 4}
"""Numbers for each weight that exist while the weights are updated, where the optimizer has no fused kernel."""


@dataclass(frozen=True)
class TrainedBytes:
    """Bytes of one device that do not depend on what it reads."""

    weights: float
    """An average of them included."""
    gradients: float
    optimizer: float
    updating: float
    """More for a moment, while the weights are updated: a copy by which a logged step measures how far they move."""
    moved: float
    """Read or written by an update."""

    @property
    def total(self) -> float:
        """Return what stays from step to step, with the gradients."""
        return self.weights + self.gradients + self.optimizer


def trained_bytes(weights: float, trained: float, optimizer: str, weight_averaging: float | None) -> TrainedBytes:
    """Return the bytes by those of the weights on the device, and of those of them that are trained."""
    states = STATES.get(optimizer, 0)
    averaged = trained if weight_averaging is not None else 0.0
    return TrainedBytes(
        weights=weights + averaged,
        gradients=trained,
        optimizer=states * trained,
        updating=trained * max(1, _OF_UPDATE.get(optimizer, 0) + 1),
        moved=trained * (3 + 2 * states) + 3 * averaged,
    )
