"""Runs in Weights & Biases as records: ours as they told it, those of other programs as far as a named metric tells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from headtohead.tracking.record import Comparability, Place, Progress, RunRecord, Status, WandbLink

PAGE = 50
"""Runs asked for at once."""
_STATES: Mapping[str, Status] = {"finished": "finished", "running": "running", "failed": "failed"}
"""Of W&B; crashed, killed and preempted ones were interrupted."""
_STATUSES: tuple[Status, ...] = ("running", "finished", "diverged", "out_of_memory", "interrupted", "failed")
_OURS = ("validation", "test")
_SEED = ("seed", "random_seed", "rng_seed")
_NON_FINITE = ("nan", "infinity", "-infinity", "inf", "-inf")


class WandbError(ValueError):
    """W&B gave no runs; the message says why in a sentence."""


def summary_of(record: RunRecord) -> dict[str, object]:
    """What W&B shows of a run in its table, and what is read back from there; None is left out."""
    told = {
        **record.metrics,
        "throughput": record.throughput,
        "baseline": record.baselines,
        "costs": record.costs.get("totals", {}),
        "comparability": asdict(record.comparability),
        "budget": {"kind": record.budget.get("kind")},
        "place": asdict(record.place) if record.place.arm else {},
    }
    flat = {f"{part}/{name}": value for part, values in told.items() for name, value in values.items()}
    return {name: value for name, value in flat.items() if value is not None}


def runs_at(address: str, opened: Callable[[], Any], *, metric: str | None) -> tuple[list[RunRecord], list[str]]:
    """All runs of ENTITY/PROJECT, or the one of ENTITY/PROJECT/RUN; with remarks on how they were read."""
    parts = [part for part in address.split("/") if part]
    if len(parts) not in (2, 3):
        raise WandbError(f"wandb:{address} names no project: write wandb:ENTITY/PROJECT, or wandb:ENTITY/PROJECT/RUN")
    runs = list(_asked(address, parts, opened))
    if not runs:
        raise WandbError(f"wandb:{address} holds no runs")
    records = [_record(run, metric) for run in runs]
    _check_metric(address, [run for run in runs if not _is_ours(run)], metric)
    return records, [f"wandb:{address}: {len(records)} run{'' if len(records) == 1 else 's'} as W&B has them"]


def _asked(address: str, parts: list[str], opened: Callable[[], Any]) -> Iterator[Any]:
    try:
        api = opened()
        if len(parts) == 3:
            yield api.run("/".join(parts))
        else:
            # Not lazy: configuration and summary come with the page, not by a question for each run.
            yield from api.runs("/".join(parts), per_page=PAGE, lazy=False)
    except Exception as error:  # the client raises its own kinds, those of requests, and plain ValueErrors
        raise WandbError(f"wandb:{address} cannot be read: {_why(error, parts)}") from None


def _why(error: Exception, parts: list[str]) -> str:
    told = " ".join(str(error).split())
    low = f"{type(error).__name__} {told}".lower()
    for words, why in (
        (("no api key", "not logged in", "401", "authentication"), "W&B does not take the key in use: `wandb login`"),
        (("403", "permission"), f"the key in use may not see {parts[0]}/{parts[1]}"),
        (
            ("404", "could not find", "not found", "does not exist"),
            f"W&B has no {'/'.join(parts)}: check entity, project and run id, as they stand in the page's address",
        ),
        (
            ("connection", "timeout", "timed out", "max retries"),
            "W&B's server does not answer: try again, or compare the records on disk",
        ),
    ):
        if any(word in low for word in words):
            return why
    return told[:200] or type(error).__name__


def _check_metric(address: str, strangers: Sequence[Any], metric: str | None) -> None:
    named = sorted({name for run in strangers for name in run.summary_metrics})
    if strangers and metric not in named:
        missing = "was made by another program" if metric is None else f"and the other runs have no {metric}"
        raise WandbError(
            f"{strangers[0].name} of wandb:{address} {missing}: --metric names one of its results, "
            f"{', '.join(named) or 'of which it has none'}"
        )


def _is_ours(run: Any) -> bool:
    """By what every run of ours tells W&B of the machine."""
    environment = run.config.get("environment")
    return isinstance(environment, Mapping) and "packages" in environment


def _record(run: Any, metric: str | None) -> RunRecord:
    config, summary = dict(run.config), dict(run.summary_metrics)
    record = RunRecord(
        id=str(run.id),
        name=str(run.name or run.id),
        group=str(getattr(run, "group", None) or "default"),
        job_type=str(getattr(run, "job_type", None) or "train"),
        tags=[str(tag) for tag in run.tags or ()],
        config=config,
        seed=_seed(config, str(run.name)),
        status=_status(run, summary),
        wandb=WandbLink(id=str(run.id), mode="online", url=getattr(run, "url", None)),
        progress=_progress(summary),
    )
    numbers = _numbers(summary)
    return _as_ours(record, numbers, summary) if _is_ours(run) else _as_foreign(record, numbers, metric)


def _as_ours(record: RunRecord, numbers: Mapping[str, float], summary: Mapping[str, Any]) -> RunRecord:
    record.config = {name: value for name, value in record.config.items() if name != "environment"}
    record.metrics = {stage: {} for stage in _OURS}
    for name, value in numbers.items():
        stage, _, what = name.partition("/")
        if stage in _OURS or stage.startswith("test_"):
            record.metrics.setdefault(stage, {})[what] = value
    record.throughput = {**_under("throughput/", numbers)}
    record.baselines = _under("baseline/", numbers)
    record.costs = {"totals": _under("costs/", numbers)}
    told = {field.name: summary.get(f"comparability/{field.name}") for field in fields(Comparability)}
    record.comparability = Comparability(**told)
    if (budget := summary.get("budget/kind")) is not None:
        record.budget = {"kind": str(budget)}
    if (arm := summary.get("place/arm")) is not None:
        seed, trial = numbers.get("place/seed"), numbers.get("place/trial")
        record.place = Place(
            study=str(summary.get("place/study", record.group)),
            arm=str(arm),
            seed=None if seed is None else int(seed),
            trial=None if trial is None else int(trial),
            share=numbers.get("place/share", 1.0),
        )
    return record


def _as_foreign(record: RunRecord, numbers: Mapping[str, float], metric: str | None) -> RunRecord:
    record.job_type = "foreign"
    record.metrics = {}
    if metric is None or record.status != "finished":
        return record
    value = numbers.get(metric)
    if value is None or not math.isfinite(value):
        record.status, record.reason = "diverged", f"no finite {metric}"
    else:
        record.metrics = {"given": {metric: value}}
    return record


def _status(run: Any, summary: Mapping[str, Any]) -> Status:
    told = summary.get("status")
    return next((status for status in _STATUSES if status == told), _STATES.get(str(run.state), "interrupted"))


def _seed(config: Mapping[str, Any], name: str) -> int:
    """Of the configuration, else what the name ends in, else 0."""
    for key in _SEED:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    tail = name.rpartition("seed")[2].strip("-_= ")
    return int(tail) if "seed" in name and tail.isdigit() else 0


def _progress(summary: Mapping[str, Any]) -> Progress:
    numbers = _numbers(summary)
    return Progress(
        step=int(numbers.get("trainer/global_step", numbers.get("_step", 0))),
        tokens=int(numbers.get("progress/tokens", 0)),
        flops=numbers.get("progress/flops", 0.0),
        seconds=numbers.get("progress/seconds", numbers.get("_runtime", 0.0)),
    )


def _numbers(summary: Mapping[str, Any]) -> dict[str, float]:
    """W&B writes numbers that JSON lacks as text."""
    return {name: float(value) for name, value in summary.items() if _is_number(value)}


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in _NON_FINITE
    return isinstance(value, int | float) and not isinstance(value, bool)


def _under(prefix: str, numbers: Mapping[str, float]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in numbers.items() if name.startswith(prefix)}
