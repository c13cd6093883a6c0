"""A sweep as its file writes it: what is tried, in which order, by what it is judged, when a trial ends early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headtohead.building.overrides import key_of
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
    before: tuple[str, ...] = ()
    """Overrides for every trial that stand in the file's command before its parameters, which may replace them."""
    after: tuple[str, ...] = ()
    """Those that stand behind the parameters, then those typed beside the file's name: they have the last word."""
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
    def given(self) -> tuple[str, ...]:
        """Overrides for every trial beside the parameters."""
        return (*self.before, *self.after)

    def overrides(self, *swept: str) -> tuple[str, ...]:
        """Return those of a trial in the order in which an agent types them: of two for one field the later counts."""
        constants = (f"{key}={written(value)}" for key, value in self.constants.items())
        return (*self.before, *constants, *swept, *self.after)

    @property
    def duplicates(self) -> list[str]:
        """What is set more than once, and which of its values counts, in sentences."""
        parameters = {key: f"parameters.{key}" for key in self.parameters}
        places = [*((key_of(word), word) for word in self.before), *parameters.items()]
        places += [(key_of(word), word) for word in self.after]
        by_key: dict[str, list[str]] = {}
        for key, place in places:
            by_key.setdefault(key, []).append(place)
        return [
            f"{key} is set {len(found)} times, by {' and '.join(found)}: {found[-1]} comes last and counts"
            for key, found in by_key.items()
            if len(found) > 1
        ]


def _is_constant(entry: Distribution) -> bool:
    return isinstance(entry, Listed) and len(entry.points) == 1
