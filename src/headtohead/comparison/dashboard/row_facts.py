"""Facts that the page shows of one run: in a row of its list, and in the curves, lines and cards of its panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headtohead.records.run_filters import as_text, value_of
from headtohead.records.run_summary import RunSummary
from headtohead.records.strict_json import encode

GROUPS = ("arm", "name", "seed", "status", "group", "study", "trial", "share")
"""Fields to group by besides those of the configuration."""
UNKNOWN = "–"


def row_facts(run: RunSummary, group: str) -> dict[str, Any]:
    """Return all that the page shows of a run but its configuration, with the label of its group."""
    names = (
        "id", "name", "arm", "seed", "group", "study", "trial", "share", "tags", "notes", "status", "reason",
        "started", "metric", "stage", "value", "baseline", "direction", "selected_by", "max_steps", "costs",
        "progress", "results",
    )  # fmt: skip
    facts = {name: encode(getattr(run, name), name) for name in names}
    is_blind = run.setting("probe.at_end") is False and run.setting("probe.every") is None
    return {**facts, "latest": dict(run.latest), "draws_nothing": is_blind, "label": label_of(run, group)}


def label_of(run: RunSummary, group: str) -> str:
    """Return the name of the group that a run is in, when runs are grouped by this field."""
    if not group:
        return ""
    value = value_of(run, group)
    return UNKNOWN if value is None else as_text(value)


def differing_fields(runs: Iterable[RunSummary]) -> list[str]:
    """Return the fields of the configuration in which these runs differ, by name; equal sections are looked at once."""
    total = 0
    sections: dict[int, tuple[int, Mapping[str, Any]]] = {}
    """By the section itself, which is held: how many runs have it."""
    for run in runs:
        total += 1
        for section in run.sections:
            count, values = sections.get(id(section.values), (0, section.values))
            sections[id(section.values)] = count + 1, values
    seen: dict[str, tuple[int, set[str]]] = {}
    for count, values in sections.values():
        for name, value in values.items():
            known, texts = seen.get(name, (0, set()))
            seen[name] = known + count, texts | {as_text(value)}
    return sorted(name for name, (count, texts) in seen.items() if len(texts) > 1 or count < total)


def differences(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Return the values of the fields in which the configurations of some runs differ, one list for each run."""
    configs = [run.config for run in runs]
    every = {name for config in configs for name in config}
    fields = sorted(name for name in every if len({as_text(config.get(name, UNKNOWN)) for config in configs}) > 1)
    values = [[as_text(config[name]) if name in config else UNKNOWN for name in fields] for config in configs]
    return {"fields": fields, "total": len(every), "values": values}
