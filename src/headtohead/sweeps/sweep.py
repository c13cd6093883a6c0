"""A sweep as its file writes it: what is tried, in which order, by what it is judged, when a trial ends early."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headtohead.comparison.analyses.trials import Value, written
from headtohead.config.compose.overrides import key_of
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.sweeps.distributions import Distribution, WeightedValues

# Hyperband as W&B sweeps have it: at some numbers of logged values a trial that is not among the best is ended
# (https://arxiv.org/abs/1603.06560, https://docs.wandb.ai/guides/sweeps/sweep-config-keys).


MOST_LOGGED = 2**31
"""More values than any trial logs."""
_MOST_BRACKETS = 100


@dataclass(frozen=True)
class Hyperband:
    """Rules for ending trials early."""

    brackets: tuple[int, ...]
    """The numbers of logged values of the metric after which a trial is judged, ascending."""
    eta: float = 3.0
    """The best 1/eta of the trials at a bracket may continue."""
    strict: bool = False
    """Judge a trial by its value at the bracket, as the paper does, and not by its best value so far."""

    @property
    def words(self) -> str:
        brackets = [str(bracket) for bracket in self.brackets[:4]]
        more = " ..." if len(self.brackets) > len(brackets) else ""
        return (
            f"Hyperband ends trials that are not among the best 1/{self.eta:g} after {', '.join(brackets)}{more} "
            f"values "
            f"of the metric{', judged by the value there' if self.strict else ', judged by their best value so far'}"
        )

    def against(
        self, own: Sequence[float], all_of_them: Sequence[Sequence[float]], *, larger_is_better: bool
    ) -> str | None:
        """Return why a trial should end now, or None, from every trial, this one among them, the values it has
        logged so far."""
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
    """Return min_iter, and each time eta times as many, as long as a trial may log so many."""
    brackets: list[int] = []
    bracket = float(min_iter)
    while bracket <= MOST_LOGGED and len(brackets) < _MOST_BRACKETS:
        brackets.append(int(bracket))
        bracket *= eta
    return tuple(dict.fromkeys(brackets))


def to_last(max_iter: int, eta: float, count: int) -> tuple[int, ...]:
    """So many, the last one max_iter / eta, each an eta-th of the next."""
    brackets: list[int] = []
    bracket = max_iter / eta
    while bracket >= 1 and len(brackets) < count:
        brackets.append(int(bracket))
        bracket /= eta
    return tuple(sorted(set(brackets)))


Method = Literal["grid", "random", "bayes"]


@dataclass(frozen=True)
class Sweep:
    """One file."""

    name: str
    """That of the file."""
    method: Method
    parameters: Mapping[str, Distribution]
    """The parameters by field or group; nested ones by their whole path."""
    before: tuple[str, ...] = ()
    """Overrides for every trial that stand in the file's command before its parameters, which may replace them."""
    after: tuple[str, ...] = ()
    """Those that stand behind the parameters, then those typed beside the file's name: they have the last word."""
    config_dir: str | None = None
    """A folder with choices of the user's own, where the file's command names one."""
    metric: str = "validation/loss"
    larger_is_better: bool = False
    run_cap: int | None = None
    hyperband: Hyperband | None = None
    description: str = ""
    seed: int = 0
    """The seed of the search: the same file tries the same settings everywhere."""

    @property
    def swept(self) -> dict[str, Distribution]:
        """Parameters of more than one value."""
        return {key: entry for key, entry in self.parameters.items() if not _is_constant(entry)}

    @property
    def constants(self) -> dict[str, Value]:
        return {key: entry.at(0.0) for key, entry in self.parameters.items() if _is_constant(entry)}

    @property
    def fixed_fields(self) -> tuple[str, ...]:
        """Overrides for every trial beside the parameters."""
        return (*self.before, *self.after)

    def overrides(self, *swept: str) -> tuple[str, ...]:
        """Return those of a trial in the order in which an agent types them: of two for one field the later counts."""
        constants = (f"{key}={written(value)}" for key, value in self.constants.items())
        return (*self.before, *constants, *swept, *self.after)

    @property
    def duplicates(self) -> list[str]:
        """List, in sentences, the fields that are set more than once, and which of their values counts."""
        parameters = {key: f"parameters.{key}" for key in self.parameters}
        assignments = [*((key_of(word), word) for word in self.before), *parameters.items()]
        assignments += [(key_of(word), word) for word in self.after]
        by_key: dict[str, list[str]] = {}
        for key, index in assignments:
            by_key.setdefault(key, []).append(index)
        return [
            f"{key} is set {len(sources)} times, by {' and '.join(sources)}: {sources[-1]} comes last and counts"
            for key, sources in by_key.items()
            if len(sources) > 1
        ]


def _is_constant(entry: Distribution) -> bool:
    return isinstance(entry, WeightedValues) and len(entry.points) == 1


ENDED_EARLY = "ended early"
_WORDS: Mapping[str, str] = {"interrupted": ENDED_EARLY, "out_of_memory": "out of memory", "out_of_disk": "out of disk"}


@dataclass(frozen=True)
class Outcome:
    """An outcome is that of a trial which has ended."""

    status: str
    """That of the record, in words."""
    value: float | None = None
    """The best that it logged; None where it failed or diverged."""
    step: int = 0
    reason: str | None = None
    record: RunRecord | None = None


def outcome_of(record: RunRecord, folder: Path, sweep: Sweep) -> Outcome:
    """Return the outcome from a record that says how its run ended."""
    status = _WORDS.get(record.status, record.status)
    value = _best(folder, sweep) if status in ("finished", ENDED_EARLY) else None
    return Outcome(status, value, record.progress.step, record.reason, record)


def logged(folder: Path, metric: str) -> tuple[list[int], list[float]]:
    """Steps and values of a run, as far as it has come; what is not a number is left out, as W&B leaves it out."""
    curve = RunFolder(folder).metrics([metric]).get(metric)
    pairs = [] if curve is None else list(zip(curve.step, curve.value, strict=True))
    finite = [(step, value) for step, value in pairs if math.isfinite(value)]
    return [step for step, _ in finite], [value for _, value in finite]


def _best(folder: Path, sweep: Sweep) -> float | None:
    _, values = logged(folder, sweep.metric)
    return (max if sweep.larger_is_better else min)(values, default=None)
