"""Collect what the page shows of one record: names to filter and group by, results, costs, and its status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from headtohead.comparison.tables.run_table import line_of
from headtohead.records.record import Progress, RunRecord, Status
from headtohead.records.strict_json import encode

CHOICES = "choices"
"""Their names hold no dots: model/mixer stands for itself."""


def fixed_facts(record: RunRecord) -> dict[str, Any]:
    """Return the facts that do not change until the record is written again."""
    line = line_of(record)
    position = record.place
    return {
        "id": record.id,
        "name": line.name,
        "arm": position.arm or line.name,
        "seed": record.seed if position.seed is None else position.seed,
        "group": record.group,
        "study": position.study,
        "trial": position.trial,
        "share": position.share,
        "tags": record.tags,
        "notes": record.notes,
        "started": record.timing.started,
        "metric": line.metric,
        "stage": line.stage,
        "value": encode(line.value, "value"),
        "baseline": encode(line.baseline, "baseline"),
        "direction": record.selection.direction,
        "selected_by": record.selection.metric,
        "max_steps": _settings(record).get("max_steps"),
        "costs": {
            "parameters": line.parameters,
            "flops_per_token": line.flops_per_token,
            "tokens_per_second": line.tokens_per_second,
            "samples_per_second": line.samples_per_second,
            "peak_memory_bytes": line.peak_memory_bytes,
        },
        "results": {
            f"{stage}/{name}": encode(value, name)
            for stage, values in record.metrics.items()
            for name, value in values.items()
        },
        "config": dict(flattened_config(record.config)),
    }


def current_facts(
    status: Status, reason: str | None, progress: Progress, latest: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return the facts that change while a run trains."""
    return {"status": status, "reason": reason, "progress": asdict(progress), "latest": dict(latest)}


def flattened_config(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names with plain values; lists in one piece."""
    for name, value in config.items():
        path = f"{before}{name}"
        if path == CHOICES and isinstance(value, Mapping):
            yield from ((str(group), choice) for group, choice in value.items())
        elif isinstance(value, Mapping) and value:
            yield from flattened_config(value, f"{path}.")
        else:
            yield path, value


def _settings(record: RunRecord) -> Mapping[str, Any]:
    result = record.config.get("trainer")
    return result if isinstance(result, Mapping) else {}
