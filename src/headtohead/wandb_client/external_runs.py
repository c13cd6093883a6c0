"""Runs of other programs in Weights & Biases, as far as named parts of them tell: a metric, an arm, a seed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headtohead.records.record import RunRecord, StudyPosition
from headtohead.wandb_client.addresses import WandbError

_SEED = ("seed", "random_seed", "rng_seed")
_ATTRIBUTES = ("name", "group", "job_type", "sweep_name")
"""The attributes of a run of W&B that may name an arm, beside its configuration."""
_FEW = 12


@dataclass(frozen=True)
class RunKeys:
    """`metric` is one of the summary, `arm` and `seed` of the configuration, nested ones as model.name."""

    metric: str | None = None
    arm: str | None = None
    seed: str | None = None


def check_external_runs(typed: str, runs: Sequence[Any], names: RunKeys) -> None:
    """Check that every name leads somewhere."""
    if not runs:
        return
    who = f"{runs[0].name} of wandb:{typed}"
    metrics = sorted({name for run in runs for name in flattened(run.summary_metrics)})
    if names.metric not in metrics:
        why = "was made by another program" if names.metric is None else f"and the other runs have no {names.metric}"
        raise WandbError(f"{who} {why}: --metric names one of its results, {_choices(names.metric, metrics)}")
    for option, name in (("arm", names.arm), ("seed", names.seed)):
        without_name = [run for run in runs if name is not None and _named(run, name) is None]
        if without_name:
            known = sorted({*_ATTRIBUTES, *flattened(dict(without_name[0].config))})
            raise WandbError(
                f"{without_name[0].name} of wandb:{typed} has no {name}, which --{option} names: "
                f"{_choices(name, known)}"
            )


def as_external_run(record: RunRecord, run: Any, numbers: Mapping[str, float], names: RunKeys) -> RunRecord:
    """Return the run as a record with a single result, and with the study position that the names give it."""
    record.job_type = "foreign"
    record.metrics = {}
    record.seed = _seed_named(run, names.seed) if names.seed else seed_of(dict(run.config), record.name)
    if names.arm:
        record.place = StudyPosition(arm=str(_named(run, names.arm)), seed=record.seed)
    if names.metric is None or record.status != "finished":
        return record
    value = numbers.get(names.metric)
    if value is None or not math.isfinite(value):
        record.status, record.reason = "diverged", f"no finite {names.metric}"
    else:
        record.metrics = {"given": {names.metric: value}}
    return record


def seed_of(config: Mapping[str, Any], name: str) -> int:
    """Return the seed from the configuration, else the number at the end of the name, else 0."""
    for key in _SEED:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    tail = name.rpartition("seed")[2].strip("-_= ")
    return int(tail) if "seed" in name and tail.isdigit() else 0


def flattened(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested values by dotted names: what `define_metric` with a summary makes of a result among them. Tables and
    pictures, which the client writes with a `_type`, are not values."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and "_type" in value:
            continue
        inner = flattened(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
        flat |= inner
    return flat


def _named(run: Any, name: str) -> Any:
    known = flattened(dict(run.config))
    return known[name] if name in known else getattr(run, name, None) if name in _ATTRIBUTES else None


def _seed_named(run: Any, name: str) -> int:
    value = _named(run, name)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number.is_integer():
        raise WandbError(f"{name} of {run.name} is {value}; --seed must name a whole number, such as 0")
    return int(number)


def _choices(wrong: str | None, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(wrong or "", names, n=1)
    hint = f"did you mean {close[0]}? It has " if close else ""
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"{hint}{', '.join(names[:_FEW]) or 'and it has none'}{more}"
