"""A run in a few lines: what lists show, filters read and sorts compare, without the whole record in memory; and its
headline, the one result that stands for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.metrics import Direction, own_metric
from headtohead.metrics.language_modelling import LOSS
from headtohead.records.record import RunRecord

UNNAMED_STAGE = "given"
"""The results of another program, which does not say on which split."""
STAGES = ("test", "validation", UNNAMED_STAGE)
"""The stages whose results count, the first first."""


def headline_of(record: RunRecord, metric: str | None = None) -> tuple[str | None, str | None, float | None]:
    """Return stage, metric and value; `metric` as in "accuracy" or "validation/loss", else what the record was selected
    by, or its accuracy or loss."""
    stage, _, name = (metric or "").partition("/")
    if name and stage in record.metrics:
        return stage, name, record.metrics[stage].get(name)
    for stage in STAGES:
        results = record.metrics.get(stage, {})
        name = metric or _preferred(record, results)
        if name in results:
            return stage, name, results[name]
    return None, None, None


def _preferred(record: RunRecord, results: Mapping[str, float]) -> str:
    if len(results) == 1:
        return next(iter(results))
    selected = record.selection.metric
    known = ((own.headline, name) for name in results if (own := own_metric(name)) is not None)
    ranked = sorted((rank, name) for rank, name in known if rank is not None)
    return ranked[0][1] if selected == LOSS.name and ranked else selected


def _direction(record: RunRecord, metric: str | None) -> Direction:
    """Return the better direction of a result: that of the selection by it, else what the run recorded of it, or its
    name tells."""
    if metric in (None, record.selection.metric):
        return record.selection.direction
    known = record.metric(metric)
    return (known.direction if known is not None else None) or "max"


CHOICES = "choices"
"""Their names hold no dots: model/mixer stands for itself."""
UNREADABLE = "unreadable"
"""The status of a run whose record cannot be read."""


class ConfigSection:
    """One section of a configuration, by dotted names; runs that share it share this object: read it, never write."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values
        self._by_ending: dict[str, str | None] = {}

    def ending(self, name: str) -> str | None:
        """Return the first field whose last part is the name: model.d_model for d_model."""
        if name not in self._by_ending:
            ends = (f".{name}", f"/{name}")
            self._by_ending[name] = next((key for key in self.values if key.endswith(ends)), None)
        return self._by_ending[name]


APART = ("costs", "progress", "results", "sections")
"""The parts of a summary that an index stores apart."""


@dataclass(repr=False)
class RunSummary:
    """One run as lists show it; None where its record does not say."""

    path: str
    """The run folder."""
    id: str
    """The name of its folder, and its id on W&B."""
    name: str = ""
    """The readable name."""
    arm: str = ""
    """The arm as its study calls it; outside studies its name."""
    seed: int = 0
    """The seed by which arms are paired: that of its study, else its own."""
    group: str = "default"
    """The folder below outputs/: a study, a sweep, an idea."""
    study: str | None = None
    """The study that it belongs to."""
    trial: int | None = None
    """The trial of its arm's tuning."""
    share: float = 1.0
    """The share of the budget: 1, or less for a run at part of it."""
    job_type: str = "train"
    """The job: train, foundation, or foreign for a run of another program."""
    tags: list[str] = field(default_factory=list)
    """The labels, which W&B shows too."""
    notes: str | None = None
    """The user's notes."""
    status: str = "running"
    """The status as in the record, but `interrupted` where its process is gone, and `unreadable` where the record is
    damaged."""
    reason: str | None = None
    """The reason why it did not finish."""
    started: str | None = None
    """The time of its first start, ISO 8601 in UTC."""
    stage: str | None = None
    """The stage of the result that stands for the run: test, else validation."""
    metric: str | None = None
    """The metric of that result."""
    value: float | None = None
    """The result, `metric` measured on `stage`."""
    baseline: float | None = None
    """The score of a model that learned nothing."""
    direction: Direction = "min"
    """The better direction of the metric: min or max."""
    selected_by: str = "loss"
    """The validation metric that selects its checkpoint."""
    max_steps: int | None = None
    """The steps that it was configured for; None where epochs decide."""
    costs: dict[str, float | None] = field(default_factory=dict)
    """parameters, flops_per_token, tokens_per_second, samples_per_second, peak_memory_bytes, joules,
    joules_per_token."""
    progress: dict[str, float] = field(default_factory=dict)
    """step, epoch, tokens, flops, seconds."""
    results: dict[str, float] = field(default_factory=dict)
    """All results by stage and name: test/loss."""
    latest: Mapping[str, float | None] = field(default_factory=dict)
    """The last logged value of each metric, where somebody follows the run; None where it is not a number."""
    sections: Sequence[ConfigSection] = field(default_factory=tuple, repr=False)
    """The configuration by its sections."""

    if not TYPE_CHECKING:  # which goes on refusing names that a summary does not have

        def __getattr__(self, name: str) -> object:
            """Decode what an index stores apart once the first of it is read: of thousands of runs few are."""
            if name not in APART or "_apart" not in vars(self):
                raise AttributeError(f"a run has no {name}", name=name, obj=self)
            text, shared = self._apart
            *values, plain = json.loads(text)
            for part, value in zip(APART, [*values, [ConfigSection(plain), *shared]], strict=True):
                vars(self).setdefault(part, value)
            return vars(self)[name]

    @classmethod
    def stored(cls, values: Mapping[str, object], apart: str, shared: Sequence[ConfigSection]) -> RunSummary:
        """Return a summary of all its values but those in `apart`, a text that is decoded when somebody asks: APART,
        with the fields outside sections in place of the sections. The constructor would fill each in once more."""
        summary = cls.__new__(cls)
        vars(summary).update(values, latest={}, _apart=(apart, shared))
        return summary

    @property
    def config(self) -> dict[str, Any]:
        """Return the configuration by dotted names: model.d_model; a choice by its group: model/mixer."""
        return {name: value for section in self.sections for name, value in section.values.items()}

    def __repr__(self) -> str:
        """Name the run, its status and its result in one line."""
        result = "" if self.value is None else f", {self.stage}/{self.metric} {self.value:.4g}"
        return f"<RunSummary {self.name or self.id}: {self.status.replace('_', ' ')}{result}, {self.path}>"

    def __fspath__(self) -> str:
        """Return the run's folder, so that the summary stands wherever a run is taken by its path."""
        return self.path

    def setting(self, name: str, default: object = None) -> Any:
        """Return one value of the configuration by its dotted name, `default` where there is none.

        No two sections have a name in common, so that those which runs share are asked first: they need no decoding.
        """
        _, shared = vars(self).get("_apart", ("", ()))
        sections = (section for part in (shared, None) for section in (self.sections if part is None else part))
        return next((section.values[name] for section in sections if name in section.values), default)


def summary_of(record: RunRecord, path: str) -> RunSummary:
    """Return the summary of a record."""
    summary = bare_summary(record, path)
    summary.sections = [ConfigSection(dict(flattened_config({name: part}))) for name, part in record.config.items()]
    return summary


def bare_summary(record: RunRecord, path: str) -> RunSummary:
    """Return the summary of a record without the sections of its configuration."""
    stage, metric, value = headline_of(record)
    position, totals, speed = record.place, record.costs.get("totals", {}), record.throughput
    name = record.name or record.id
    trainer = record.config.get("trainer")
    return RunSummary(
        path=path,
        id=record.id,
        name=name,
        arm=record.arm,
        seed=record.seed if position.seed is None else position.seed,
        group=record.group,
        study=position.study,
        trial=position.trial,
        share=position.share,
        job_type=record.job_type,
        tags=record.tags,
        notes=record.notes,
        status=record.status,
        reason=record.reason,
        started=record.timing.started,
        stage=stage,
        metric=metric,
        value=value,
        baseline=record.baseline(stage, metric) if stage and metric else None,
        direction=_direction(record, metric),
        selected_by=record.selection.metric,
        max_steps=trainer.get("max_steps") if isinstance(trainer, Mapping) else None,
        costs={
            "parameters": totals.get("parameters"),
            "flops_per_token": totals.get("training_flops_per_token"),
            "tokens_per_second": speed.get("tokens_per_second"),
            "samples_per_second": speed.get("samples_per_second"),
            "peak_memory_bytes": speed.get("peak_memory_bytes"),
            "joules": speed.get("joules"),
            "joules_per_token": speed.get("joules_per_token"),
        },
        progress=dict(vars(record.progress)),
        results={
            f"{stage}/{name}": result for stage, results in record.metrics.items() for name, result in results.items()
        },
    )


def unreadable(path: str, reason: str) -> RunSummary:
    """Return the summary of a run whose record cannot be read."""
    name = Path(path).name
    return RunSummary(path=path, id=name, name=name, arm=name, status=UNREADABLE, reason=reason)


def flattened_config(config: Mapping[str, object], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names with plain values; lists in one piece."""
    for name, value in config.items():
        path = f"{before}{name}"
        if path == CHOICES and isinstance(value, Mapping):
            yield from ((str(group), choice) for group, choice in value.items())
        elif isinstance(value, Mapping) and value:
            yield from flattened_config(value, f"{path}.")
        else:
            yield path, value
