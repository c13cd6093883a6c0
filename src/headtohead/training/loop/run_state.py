"""Hold how far a run has come: all that a checkpoint contains besides weights and optimizer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from headtohead.records.record import Progress
from headtohead.training.energy_counters import Energy, not_measured
from headtohead.training.loop.throughput import ThroughputMeter
from headtohead.training.run_components import TrainerSettings

Direction = Literal["min", "max"]


@dataclass
class RunState:
    """Counts are over all devices."""

    step: int = 0
    """Optimizer steps taken."""
    epoch: int = 0
    samples: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    """Spent training, before this start of the run."""
    joules: float | None = 0.0
    """Drawn while training, before this start of the run; None where a part was not measured."""
    energy_source: str = ""
    window: list[float] = field(default_factory=list)
    """Losses of the steps since the last logged one."""
    best_step: int | None = None
    best_value: float | None = None
    best_metrics: dict[str, float] = field(default_factory=dict)
    patience_value: float | None = None
    """The last value that was better than the one before it by `min_delta`."""
    validations_without_gain: int = 0

    def progress(self, seconds: float) -> Progress:
        return Progress(self.step, self.epoch, self.tokens, self.flops, self.seconds + seconds)

    @classmethod
    def saved(cls, state: Mapping[str, Any]) -> RunState:
        """Return the state in a checkpoint; one that was written without a counter of energy drew an unknown amount."""
        unmeasured = {"joules": None, "energy_source": not_measured("an earlier start did not read a counter")}
        return cls(**{**unmeasured, **state})

    def energy(self, meter: ThroughputMeter) -> Energy:
        """Return what all starts drew for the steps that were taken."""
        return Energy(self.joules, self.energy_source) + meter.energy

    def with_spent(self, meter: ThroughputMeter) -> RunState:
        """Return the state as the next start has to find it."""
        energy = self.energy(meter)
        return replace(self, seconds=self.seconds + meter.seconds, joules=energy.joules, energy_source=energy.source)

    def judge(self, value: float, direction: Direction, min_delta: float) -> bool:
        """Take in a validation's value; whether it is the best so far. A loss of NaN never is."""
        if _beats(value, self.patience_value, direction, min_delta):
            self.patience_value = value
            self.validations_without_gain = 0
        else:
            self.validations_without_gain += 1
        if not _beats(value, self.best_value, direction, 0.0):
            return False
        self.best_step, self.best_value = self.step, value
        return True

    def is_done(self, settings: TrainerSettings) -> bool:
        """Return whether the run has come to its last step, or was without a gain for as long as it may be."""
        patience = settings.patience
        return self.step >= settings.max_steps or (patience is not None and self.validations_without_gain >= patience)

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


JOULES = "throughput/joules"
"""The energy that a run has drawn up to a step, as it is logged."""


def joules_now(state: RunState, meter: ThroughputMeter) -> dict[str, float]:
    """Return what all starts drew up to now, as it is logged; nothing where it was not measured."""
    energy = state.energy(meter)
    return {} if energy.joules is None or not energy.source else {JOULES: energy.joules}


def _beats(value: float, other: float | None, direction: Direction, margin: float) -> bool:
    if math.isnan(value) or other is None:
        return not math.isnan(value)
    return (other - value if direction == "min" else value - other) > margin
