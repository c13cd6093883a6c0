"""A matching brings each arm to its budget. It is saved with the study by whoever plans first, and read by everybody
after."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headtohead.config.run_config import RunConfig
from headtohead.estimates.step_timing import StepTiming
from headtohead.files.atomic_write import SUFFIX, replace_text
from headtohead.files.leases import Leases
from headtohead.files.safe_read import DamagedFile, read_object
from headtohead.studies.matching.budgets import Budget


@dataclass(frozen=True)
class MatchedArm:
    """One arm, the baseline among them."""

    name: str
    overrides: tuple[str, ...]
    """The overrides to be added to the arm's own; empty where it fits as it is written."""
    figures: Mapping[str, float]
    """The costs of the run with them, by the names of the budgets' figures."""
    achieved: float
    residual: float
    """(achieved - target) / target."""
    met: bool
    reason: str = ""
    """The reason why the budget is not met."""
    uncertainty: float = 0.0
    """Share by which the residual may be off, where the figure is measured and not counted."""
    differs: Mapping[str, float] = field(default_factory=dict)
    """The other figures that are not within the tolerance, as multiples of the baseline's."""
    timing: StepTiming | None = None


@dataclass(frozen=True)
class Matching:
    """All arms under one budget."""

    budget: Budget
    """The cost that is equal between arms, and its tolerance."""
    baseline: str
    """The arm that sets the target."""
    target: float
    """The baseline's cost, in the unit of the budget."""
    arms: tuple[MatchedArm, ...]
    """The arms with the overrides that bring them to the target, the baseline among them."""

    @property
    def met(self) -> bool:
        """Return whether every arm meets the budget."""
        return all(arm.met for arm in self.arms)

    def arm(self, name: str) -> MatchedArm:
        """Return the arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for --json and for records."""
        return {
            "budget": {"figure": self.budget.figure, **asdict(self.budget)},
            "baseline": self.baseline,
            "target": self.target,
            "met": self.met,
            "arms": {arm.name: {**asdict(arm), "overrides": list(arm.overrides)} for arm in self.arms},
        }


def uncertain(arm: MatchedArm, budget: Budget) -> bool:
    """Return whether the measurement is too coarse to tell that the budget is met."""
    return arm.met and arm.uncertainty > budget.tolerance


def differences(figures: Mapping[str, float], baseline: Mapping[str, float], budget: Budget) -> dict[str, float]:
    """Multiples of the baseline's figures, of all but the matched one; where the baseline has nothing, nothing is
    said."""
    ratios = {name: figures[name] / baseline[name] for name in figures if baseline.get(name) and name != budget.figure}
    return {name: ratio for name, ratio in ratios.items() if abs(ratio - 1) > budget.tolerance}


FOLDER = "matchings"
_LEASE = "matching"
_ANOTHER = "restore it from a copy; without it, remove the file, and the arm is matched again"
_WAIT_SECONDS = 0.5
Solve = Callable[[Sequence[str]], Matching]
"""Brings the arms of these names to the baseline."""


@dataclass(frozen=True)
class SavedMatching:
    """One arm as it was matched, and the baseline as it was measured beside it."""

    arm: MatchedArm
    baseline: MatchedArm


class SavedMatchings:
    """Those in a study's folder, one file for each arm."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._leases = folder / FOLDER, Leases(folder / "leases")

    def has(self, key: str) -> bool:
        return self._file(key).is_file()

    def completed(self, keys: Mapping[str, str], solve: Solve) -> dict[str, SavedMatching]:
        """Return the matchings by arm, given a hash of all that each depends on; missing ones are solved by one
        process."""
        while missing := self._missing(keys):
            lease = self._leases.take(_LEASE)
            if lease is None:
                time.sleep(_WAIT_SECONDS)
                continue
            try:
                if missing := self._missing(keys):  # another may have been quicker
                    matching = solve(missing)
                    for name in missing:
                        self._save(keys[name], SavedMatching(matching.arm(name), matching.arm(matching.baseline)))
            finally:
                lease.release()
        return {name: _read(self._file(key)) for name, key in keys.items()}

    def known(self, keys: Mapping[str, str]) -> dict[str, SavedMatching]:
        """Those that were solved already."""
        return {name: _read(self._file(key)) for name, key in keys.items() if self.has(key)}

    def _missing(self, keys: Mapping[str, str]) -> list[str]:
        return [name for name, key in keys.items() if not self.has(key)]

    def _save(self, key: str, matchings: SavedMatching) -> None:
        """The first stays: runs may have begun by it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._file(key)
        own = file.with_name(f".{file.name}.{os.getpid()}{SUFFIX}")
        replace_text(own, json.dumps(asdict(matchings), indent=2) + "\n")
        try:
            os.link(own, file)
        except FileExistsError:
            pass
        finally:
            own.unlink()

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _read(file: Path) -> SavedMatching:
    written = read_object(file, way_out=_ANOTHER)
    try:
        return SavedMatching(_arm(written["arm"]), _arm(written["baseline"]))
    except (KeyError, TypeError, AttributeError):
        raise DamagedFile(file, "is not a matching of an arm", _ANOTHER) from None


def _arm(written: Mapping[str, Any]) -> MatchedArm:
    timing = written["timing"]
    tuples = {} if timing is None else {name: tuple(timing.get(name, ())) for name in ("turns", "joules")}
    timed = None if timing is None else StepTiming(**{**timing, **tuples})
    return MatchedArm(**{**written, "overrides": tuple(written["overrides"]), "timing": timed})


@dataclass(frozen=True)
class TimingConditions:
    """Those of a run."""

    device: str
    threads: int | None
    """The threads of the processor; None where the device is none, or where they were not written down."""

    @property
    def text(self) -> str:
        threads = "" if self.threads is None else f" with {self.threads} thread{'' if self.threads == 1 else 's'}"
        return f"on {self.device}{threads}"

    def differ_from(self, other: TimingConditions) -> bool:
        known = self.threads is not None and other.threads is not None
        return self.device != other.device or (known and self.threads != other.threads)


def conditions_here(config: Mapping[str, object], threads: int | None) -> TimingConditions:
    """Return the conditions of a run on this machine, with so many threads unless its configuration sets them."""
    import torch

    from headtohead.training.parallel.devices import device_for, device_name

    device = device_for(RunConfig(config).accelerator or "auto")
    num_threads = RunConfig(config).threads or threads or torch.get_num_threads()
    return TimingConditions(device_name(device), num_threads if device.type == "cpu" else None)


def conditions_of(timing: StepTiming) -> TimingConditions:
    return TimingConditions(timing.device, timing.threads)


def timed_elsewhere(matching: Matching, here: TimingConditions) -> TimingConditions | None:
    """Return the conditions under which the arms were timed, if the runs would be made under others."""
    timed = [conditions_of(arm.timing) for arm in matching.arms if arm.timing is not None]
    return next((conditions for conditions in timed if conditions.differ_from(here)), None)
