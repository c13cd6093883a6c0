"""Under what a step was timed: elsewhere, or with another number of threads, the same step takes another time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headtohead.studying.matching.costing import Timing
    from headtohead.studying.matching.matching import Matching


@dataclass(frozen=True)
class Conditions:
    """Those of a run."""

    device: str
    threads: int | None
    """Of the processor; None where the device is none, or where they were not written down."""

    @property
    def told(self) -> str:
        threads = "" if self.threads is None else f" with {self.threads} thread{'' if self.threads == 1 else 's'}"
        return f"on {self.device}{threads}"

    def differ_from(self, other: Conditions) -> bool:
        known = self.threads is not None and other.threads is not None
        return self.device != other.device or (known and self.threads != other.threads)


def conditions_here(config: Mapping[str, Any], threads: int | None) -> Conditions:
    """Of a run that this machine would make, with so many threads unless its configuration says."""
    import torch

    from headtohead.training.devices import device_for, device_name

    device = device_for(config["trainer"]["accelerator"])
    given = config["trainer"]["threads"] or threads or torch.get_num_threads()
    return Conditions(device_name(device), given if device.type == "cpu" else None)


def conditions_of(timing: Timing) -> Conditions:
    return Conditions(timing.device, timing.threads)


def timed_elsewhere(matching: Matching, here: Conditions) -> Conditions | None:
    """What the arms were timed under, where the runs would be made under other conditions."""
    timed = [conditions_of(arm.timing) for arm in matching.arms if arm.timing is not None]
    return next((found for found in timed if found.differ_from(here)), None)
