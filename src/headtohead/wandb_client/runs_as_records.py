"""Runs in Weights & Biases as records: ours as they recorded it, those of other programs as far as named parts of them
tell: a metric, an arm, a seed."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from headtohead.records.record import Comparability, Progress, RunRecord, Status, StudyPosition, WandbLink
from headtohead.wandb_client.addresses import RunsAddress, WandbError, address_of
from headtohead.wandb_client.run_metadata import BESIDE

SILENT = "W&B's server does not answer"
PAGE = 50
"""Runs requested at once."""
_STATES: Mapping[str, Status] = {"finished": "finished", "running": "running", "failed": "failed"}
"""The states of W&B; crashed, killed and preempted runs were interrupted."""
_STATUSES: tuple[Status, ...] = get_args(Status)
_OURS = ("validation", "test")
_NON_FINITE = ("nan", "infinity", "-infinity", "inf", "-inf")


def summary_of(record: RunRecord) -> dict[str, object]:
    """Return what W&B shows of a run in its table, from where it can be read back; None values are left out."""
    data = {
        **record.metrics,
        "throughput": record.throughput,
        "environment": _energy_source(record),
        "baseline": record.baselines,
        "costs": record.costs.get("totals", {}),
        "comparability": asdict(record.comparability),
        "budget": {"kind": record.budget.get("kind")},
        "place": asdict(record.place) if record.place.arm else {},
    }
    flat = {f"{part}/{name}": value for part, values in data.items() for name, value in values.items()}
    return {name: value for name, value in flat.items() if value is not None}


def _energy_source(record: RunRecord) -> dict[str, object]:
    """Return what measured the energy, where something did."""
    return {} if record.throughput.get("joules") is None else {"energy": record.environment.device.get("energy")}


def runs_at(typed: str, opened: Callable[[], Any], names: RunKeys) -> tuple[list[RunRecord], list[str]]:
    """The runs that an address names, as records; with remarks on how they were read."""
    address = address_of(typed)
    try:
        runs = list(_requested_runs(opened(), address))
        others = [] if runs else list(_whole_project(opened(), address))
    except Exception as error:  # the client raises its own kinds, those of requests, and plain ValueErrors
        raise WandbError(f"wandb:{typed} cannot be read: {_why(error, address)}") from None
    if not runs:
        raise WandbError(f"wandb:{typed} holds no runs{_available(others)}")
    check_external_runs(typed, [run for run in runs if not _is_ours(run)], names)
    records = [_record(run, names) for run in runs]
    return records, [f"wandb:{typed}: {len(records)} run{'' if len(records) == 1 else 's'} as W&B has them"]


def _requested_runs(api: Any, address: RunsAddress) -> Iterator[Any]:
    if address.run:
        yield api.run(address.path)
    else:
        # Not lazy: configuration and summary come with the page, not by a question for each run.
        yield from api.runs(address.path, filters=dict(address.filters), per_page=PAGE, lazy=False)


def _whole_project(api: Any, address: RunsAddress) -> Iterator[Any]:
    if address.filters:
        yield from api.runs(address.path, per_page=PAGE, lazy=True)


def _available(others: Sequence[Any]) -> str:
    """Name what a project has when it lacks the requested sweep or study."""
    available = {"sweeps": {run.sweep_name for run in others}, "groups": {run.group for run in others}}
    sentences = [
        f"{kind}/{name}" for kind, names in available.items() for name in sorted(name for name in names if name)
    ]
    return f": the project has {', '.join(sentences)}" if sentences else ""


def _why(error: Exception, address: RunsAddress) -> str:
    """The same for what an address names that W&B does not have, or does not show."""
    low = f"{type(error).__name__} {error}".lower()
    if _mentions(low, "403", "permission"):
        return f"this key has no access to {address.entity}/{address.project}"
    if _mentions(low, "404", "could not find", "not found", "does not exist"):
        return f"W&B has no {address.path}: check entity, project and run id, as in the page's address"
    reason = reason_of(error)
    return f"{reason}: try again, or compare the records on disk" if reason == SILENT else reason


def reason_of(error: Exception) -> str:
    """Whatever W&B's client raised, in a sentence."""
    message = " ".join(str(error).split())
    low = f"{type(error).__name__} {message}".lower()
    if _mentions(low, "connection", "timeout", "timed out", "in time", "max retries"):
        return SILENT
    if _mentions(low, "no api key", "not logged in", "401", "authentication"):
        return "W&B rejects this key: run `wandb login`"
    return message[:200] or type(error).__name__


def _mentions(text: str, *signs: str) -> bool:
    """A number counts where it stands alone: a port such as 40321 says nothing."""
    return any(re.search(rf"\b{sign}\b", text) if sign.isdecimal() else sign in text for sign in signs)


def _is_ours(run: Any) -> bool:
    """Return whether the run is ours, by what all our runs report about the machine."""
    environment = run.config.get("environment")
    return isinstance(environment, Mapping) and "packages" in environment


def _record(run: Any, names: RunKeys) -> RunRecord:
    config, summary = dict(run.config), dict(run.summary_metrics)
    record = RunRecord(
        id=str(run.id),
        name=str(run.name or run.id),
        group=str(getattr(run, "group", None) or "default"),
        job_type=str(getattr(run, "job_type", None) or "train"),
        tags=[str(tag) for tag in run.tags or ()],
        config=config,
        content_hash=str(config["content_hash"]) if _is_ours(run) and config.get("content_hash") else None,
        seed=seed_of(config, str(run.name)),
        status=_status(run, summary),
        wandb=WandbLink(id=str(run.id), mode="online", url=getattr(run, "url", None)),
        progress=_progress(summary),
    )
    numbers = _numbers(summary)
    return _as_ours(record, numbers, summary) if _is_ours(run) else as_external_run(record, run, numbers, names)


def _as_ours(record: RunRecord, numbers: Mapping[str, float], summary: Mapping[str, Any]) -> RunRecord:
    record.config = {name: value for name, value in record.config.items() if name not in BESIDE}
    record.metrics = {stage: {} for stage in _OURS}
    for name, value in numbers.items():
        stage, _, what = name.partition("/")
        if stage in _OURS or stage.startswith("test_"):
            record.metrics.setdefault(stage, {})[what] = value
    record.throughput = {**_under("throughput/", numbers)}
    if (source := summary.get("environment/energy")) is not None:
        record.environment.device["energy"] = str(source)
    record.baselines = _under("baseline/", numbers)
    record.costs = {"totals": _under("costs/", numbers)}
    data = {field.name: summary.get(f"comparability/{field.name}") for field in fields(Comparability)}
    record.comparability = Comparability(**data)
    if (budget := summary.get("budget/kind")) is not None:
        record.budget = {"kind": str(budget)}
    if (arm := summary.get("place/arm")) is not None:
        seed, trial = numbers.get("place/seed"), numbers.get("place/trial")
        record.place = StudyPosition(
            study=str(summary.get("place/study", record.group)),
            arm=str(arm),
            seed=None if seed is None else int(seed),
            trial=None if trial is None else int(trial),
            share=numbers.get("place/share", 1.0),
        )
    return record


def _status(run: Any, summary: Mapping[str, object]) -> Status:
    reported = summary.get("status")
    return next((status for status in _STATUSES if status == reported), _STATES.get(str(run.state), "interrupted"))


def _progress(summary: Mapping[str, object]) -> Progress:
    numbers = _numbers(summary)
    return Progress(
        step=int(numbers.get("trainer/global_step", numbers.get("_step", 0))),
        tokens=int(numbers.get("progress/tokens", 0)),
        flops=numbers.get("progress/flops", 0.0),
        seconds=numbers.get("progress/seconds", numbers.get("_runtime", 0.0)),
    )


def _numbers(summary: Mapping[str, object]) -> dict[str, float]:
    """W&B writes numbers that JSON lacks as text."""
    return {name: float(value) for name, value in flattened(summary).items() if _is_number(value)}


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in _NON_FINITE
    return isinstance(value, int | float) and not isinstance(value, bool)


def _under(prefix: str, numbers: Mapping[str, float]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in numbers.items() if name.startswith(prefix)}


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


def seed_of(config: Mapping[str, object], name: str) -> int:
    """Return the seed from the configuration, else the number at the end of the name, else 0."""
    for key in _SEED:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    tail = name.rpartition("seed")[2].strip("-_= ")
    return int(tail) if "seed" in name and tail.isdecimal() else 0


def flattened(values: Mapping[str, object], above: str = "") -> dict[str, Any]:
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
