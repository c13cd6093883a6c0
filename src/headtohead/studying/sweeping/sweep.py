"""A sweep as its file writes it: what is tried, in which order, by what it is judged, when a trial ends early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headtohead.comparing.trials import Value, written
from headtohead.studying.sweeping.distributions import Distribution, Listed
from headtohead.studying.sweeping.hyperband import Hyperband

Method = Literal["grid", "random", "bayes"]


@dataclass(frozen=True)
class Sweep:
    """One file."""

    name: str
    """That of the file."""
    method: Method
    parameters: Mapping[str, Distribution]
    """By field or group; nested ones by their whole path."""
    given: tuple[str, ...] = ()
    """Overrides for every trial: those in the file's command, then those beside the file's name."""
    config_dir: str | None = None
    """A folder with choices of one's own, where the file's command names one."""
    metric: str = "validation/loss"
    larger_is_better: bool = False
    run_cap: int | None = None
    hyperband: Hyperband | None = None
    description: str = ""
    seed: int = 0
    """Of the search: the same file tries the same settings everywhere."""

    @property
    def swept(self) -> dict[str, Distribution]:
        """Parameters of more than one value."""
        return {key: entry for key, entry in self.parameters.items() if not _is_constant(entry)}

    @property
    def constants(self) -> dict[str, Value]:
        return {key: entry.at(0.0) for key, entry in self.parameters.items() if _is_constant(entry)}

    @property
    def base(self) -> tuple[str, ...]:
        """Overrides of every trial: what is given beside the file has the last word."""
        return (*(f"{key}={written(value)}" for key, value in self.constants.items()), *self.given)


def _is_constant(entry: Distribution) -> bool:
    return isinstance(entry, Listed) and len(entry.points) == 1
