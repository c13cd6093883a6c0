"""Runs as contestants: whose arm a run is, which seed pairs it, whether it counts, and what an arm cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import fmean

from headtohead.comparison.comparability import NotComparable, seed_of
from headtohead.records.record import COUNTED, FOUNDATION, RunRecord

_LONG_NAME = 40
"""Letters; names of runs outside studies are longer, and mostly the same."""


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return long names without the words between hyphens that all of them begin or end with; each keeps one."""
    words = [name.split("-") for name in names]
    if len(set(names)) < 2 or max(map(len, names)) <= _LONG_NAME:
        return {name: name for name in names}
    first = min(_shared(words), min(map(len, words)) - 1)
    left = [each[first:] for each in words]
    last = min(_shared([each[::-1] for each in left]), min(map(len, left)) - 1)
    return {name: "-".join(each[: len(each) - last]) for name, each in zip(names, left, strict=True)}


def _shared(lists: Sequence[Sequence[str]]) -> int:
    """Return with how many entries all lists begin alike."""
    alike = (len(set(entries)) == 1 for entries in zip(*lists, strict=False))
    return sum(1 for _ in takewhile(bool, alike))


@dataclass(frozen=True)
class ArmCosts:
    """Arm costs are averages over an arm's finished runs; None where no run reports a cost."""

    parameters: float | None = None
    flops: float | None = None
    """The FLOPs of training one run."""
    tokens: float | None = None
    seconds: float | None = None
    tokens_per_second: float | None = None
    """Return None where nothing but images is read."""
    samples_per_second: float | None = None
    peak_memory_bytes: float | None = None
    state_elements: float | None = None
    """The elements of the state that a decoding model carries along."""
    joules: float | None = None
    """The energy of training one run, as measured; None unless one kind of counter measured all runs of the arm."""
    joules_per_token: float | None = None
    energy_source: str | None = None
    """The counter, RAPL or NVML: amounts of different ones are not compared."""


@dataclass(frozen=True)
class Arm:
    """The runs of one contestant."""

    name: str
    outcomes: dict[int, float | None]
    """The outcomes by seed; None is a run that diverged, or has no finite result."""
    left_out: int
    """Runs without outcome: failed, interrupted, out of memory, still running."""
    costs: ArmCosts = ArmCosts()
    records: Sequence[RunRecord] = field(default=(), repr=False)

    @property
    def values(self) -> list[float]:
        """Return the values of the runs that finished."""
        return [value for value in self.outcomes.values() if value is not None]

    @property
    def diverged(self) -> int:
        return len(self.outcomes) - len(self.values)


def counts(record: RunRecord) -> bool:
    """Trials of a tuning, runs on part of the budget and those that others start from answer other questions."""
    return record.place.trial is None and record.place.share == 1 and record.job_type != FOUNDATION


def excluded(records: Iterable[RunRecord]) -> str | None:
    """A sentence about runs that do not count, where there are any."""
    runs = list(records)
    trials = sum(record.place.trial is not None for record in runs)
    parts = sum(record.place.trial is None and record.place.share != 1 for record in runs)
    bases = sum(record.job_type == FOUNDATION for record in runs)
    sentences = [
        f"{count} run{'' if count == 1 else 's'} {what}"
        for count, what in (
            (trials, "of a tuning"),
            (parts, "on part of the budget"),
            (bases, "that others start from"),
        )
        if count
    ]
    return f"left out: {' and '.join(sentences)}" if sentences else None


def costs_of(records: Iterable[RunRecord]) -> ArmCosts:
    """Means over the runs that finished; memory is the most that any took."""
    done = [record for record in records if record.status == "finished"]
    joules, per_token, source = _energy_of(done)
    return ArmCosts(
        parameters=_mean(record.costs.get("totals", {}).get("parameters") for record in done),
        flops=_mean(record.progress.flops or None for record in done),
        tokens=_mean(record.progress.tokens or None for record in done),
        seconds=_mean(record.progress.seconds or None for record in done),
        tokens_per_second=_mean(record.throughput.get("tokens_per_second") or None for record in done),
        samples_per_second=_mean(record.throughput.get("samples_per_second") or None for record in done),
        peak_memory_bytes=max((record.throughput.get("peak_memory_bytes") or 0.0 for record in done), default=0)
        or None,
        state_elements=_mean(record.costs.get("totals", {}).get("state_elements") for record in done),
        joules=joules,
        joules_per_token=per_token,
        energy_source=source,
    )


def _energy_of(done: Sequence[RunRecord]) -> tuple[float | None, float | None, str | None]:
    """Return the joules of a run and of a token, and their counter; nothing where a run was not measured, since the
    mean of some runs is not the arm's."""
    sources = {energy_source(record) for record in done}
    source = sources.pop() if len(sources) == 1 else None
    if source is None:
        return None, None, None
    joules, per_token = (_mean(r.throughput.get(name) for r in done) for name in ("joules", "joules_per_token"))
    return joules, per_token, source


def energy_source(record: RunRecord) -> str | None:
    """Return what measured the energy of a run; None where nothing did."""
    if record.throughput.get("joules") is None:
        return None
    return str(record.environment.device.get("energy", "a counter that its record does not name"))


def speed_in(arms: Iterable[ArmCosts]) -> tuple[str, Callable[[ArmCosts], float | None]]:
    """Return the unit of speed and a function for an arm's speed: tokens, or samples if the model reads no tokens."""
    if any(costs.tokens_per_second for costs in arms):
        return "tokens/s", lambda costs: costs.tokens_per_second
    return "samples/s", lambda costs: costs.samples_per_second


def arms_of(values: Sequence[tuple[RunRecord, float | None]], stage: str) -> list[Arm]:
    """Runs with their values, measured in that stage, as arms by name."""
    by_name: dict[str, list[tuple[RunRecord, float | None]]] = {}
    for record, value in values:
        by_name.setdefault(record.arm, []).append((record, value))
    return [_arm(name, by_name[name], stage) for name in sorted(by_name, key=natural)]


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that puts arm2 before arm10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"([0-9]+)", name)]


def _arm(name: str, runs: Sequence[tuple[RunRecord, float | None]], stage: str) -> Arm:
    records = [record for record, _ in runs]
    outcomes: dict[int, float | None] = {}
    for record, value in runs:
        if record.status not in COUNTED:
            continue
        seed = seed_of(record)
        if seed in outcomes:
            raise NotComparable(
                f"{name} has two runs of seed {seed}, the second is {record.id}: "
                "give the paths of the runs that count, one for each seed"
            )
        outcomes[seed] = None if record.status == "diverged" else _measured(record, value, stage)
    left_out = sum(record.status not in COUNTED for record in records)
    return Arm(name, dict(sorted(outcomes.items())), left_out, costs_of(records), records)


def has_no_number(record: RunRecord, metric: str) -> bool:
    """Return whether a run finished and yet measured no finite number, as on rows far longer than those it trained on:
    it counts as one that diverged."""
    stage, _, name = metric.partition("/")
    value = record.metrics.get(stage, {}).get(name)
    return record.status == "finished" and value is not None and not math.isfinite(value)


def sentence_on_no_number(records: Iterable[RunRecord], metric: str) -> str | None:
    """Name the runs that count as diverged for a result that is not finite; None where there are none."""
    named = [f"{record.arm} (seed {seed_of(record)})" for record in records if has_no_number(record, metric)]
    return f"without a finite {metric}, and so counted as diverged: {', '.join(named)}" if named else None


def _measured(record: RunRecord, value: float | None, stage: str) -> float | None:
    if value is not None:
        return value if math.isfinite(value) else None
    who = f"{record.arm} (seed {seed_of(record)})"
    if stage in record.cannot:
        raise NotComparable(f"{who} has no {stage}: {record.cannot[stage]}; choose another with --metric")
    raise NotComparable(f"{who} finished without the metric: choose another with --metric")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
