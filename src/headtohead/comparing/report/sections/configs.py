"""The exact configurations: what differs from the baseline, everything in full, and the commands that make it again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

from headtohead.comparing.conditions import NAMES_AND_PLACES
from headtohead.comparing.findings import Findings, Found, FoundArm
from headtohead.comparing.report.parts import ArmName, Cell, Code, Column, Folded, Part, Section, Table, Text
from headtohead.comparing.report.words import UNKNOWN, metric_words
from headtohead.comparing.table import number
from headtohead.tracking.flat import ABSENT, flat
from headtohead.tracking.record import RunRecord
from headtohead.tracking.secrets import mask_secrets

_NAMES = (*NAMES_AND_PLACES, "seed")
"""How a run is called and where it goes; it is the same experiment whatever they are."""
_MANY = 7
"""Arms beside the baseline from which on they have no columns of their own."""


def section(findings: Findings) -> Section | None:
    parts = [*_commands(findings), *_differences(findings), *_in_full(findings)]
    return Section("To reproduce", "reproduce", parts) if parts else None


def _commands(findings: Findings) -> Iterator[Part]:
    if findings.command:
        again = "All of it, going on where it was stopped, and this report at the end:"
        yield Text(again if findings.resumes else "This report, from the runs as they then are:")
        yield Code(findings.command)
    rows: list[list[Cell]] = [
        [ArmName(run.arm), str(run.seed), number(run.value), Code(told)]
        for run in findings.runs
        if (told := _command(run))
    ]
    if rows:
        columns = [Column("arm"), Column("seed", True), Column(metric_words(findings.metric), True), Column("command")]
        yield Folded(f"The command of each run ({len(rows)})", [Table(columns, rows)])


def _command(run: Found) -> str | None:
    if run.command or run.record is None or run.record.path is None:
        return run.command
    file = run.record.path / "config.yaml"
    return f"h2h train --from-run {shlex.quote(os.path.relpath(run.record.path))}" if file.is_file() else None


def _differences(findings: Findings) -> Iterator[Part]:
    settings = {
        arm.name: flat(record.config, without=_NAMES) for arm in findings.arms if (record := _record(arm)) is not None
    }
    baseline = settings.pop(findings.baseline, None)
    if not baseline or not settings:
        return
    fields = sorted(
        {
            key
            for config in settings.values()
            for key in config.keys() | baseline.keys()
            if config.get(key, ABSENT) != baseline.get(key, ABSENT)
        }
    )
    if not fields:
        yield Text("The arms' configurations do not differ, seeds and names aside.", "note")
        return
    yield (_side_by_side if len(settings) < _MANY else _by_value)(findings.baseline, baseline, settings, fields)


def _side_by_side(
    name: str, baseline: Mapping[str, str], others: Mapping[str, Mapping[str, str]], fields: Sequence[str]
) -> Table:
    rows: list[list[Cell]] = []
    for key in fields:
        own = [_value(config, baseline, key) for config in others.values()]
        rows.append([Code(key), _told(baseline.get(key, ABSENT)), *own])
    caption = f"{_caption(name)} A dot: like the baseline."
    return Table([Column("field"), Column(name), *(Column(other) for other in others)], rows, caption)


def _by_value(
    name: str, baseline: Mapping[str, str], others: Mapping[str, Mapping[str, str]], fields: Sequence[str]
) -> Table:
    """Many arms would be columns that no page holds."""
    rows: list[list[Cell]] = []
    for key in fields:
        own = baseline.get(key, ABSENT)
        who: dict[str, list[str]] = {}
        for arm, config in others.items():
            if (value := config.get(key, ABSENT)) != own:
                who.setdefault(value, []).append(arm)
        shown = (
            f"{value} of {'all others' if len(arms) == len(others) else ', '.join(arms)}" for value, arms in who.items()
        )
        rows.append([Code(key), _told(own), "; ".join(shown)])
    columns = [Column("field"), Column(name), Column("of other arms", wide=True)]
    return Table(columns, rows, f"{_caption(name)} Arms that are not named are like the baseline.")


def _caption(baseline: str) -> str:
    return (
        f"Where configurations differ. Every field in which an arm is not like {baseline}, of the first seed that ran. "
        "Names and seeds aside, all other fields are equal."
    )


def _value(config: Mapping[str, str], baseline: Mapping[str, str], key: str) -> Cell:
    value = config.get(key, ABSENT)
    return "·" if value == baseline.get(key, ABSENT) else _told(value)


def _told(value: str) -> Cell:
    return UNKNOWN if value == ABSENT else Code(value)


def _in_full(findings: Findings) -> Iterator[Part]:
    import yaml

    for arm in findings.arms:
        record = _record(arm)
        if record is not None and record.config:
            text = yaml.safe_dump(mask_secrets(record.config), sort_keys=False, allow_unicode=True, width=110)
            yield Folded(f"{arm.name}: the whole configuration (seed {record.seed})", [Code(text)], printed=False)


def _record(arm: FoundArm) -> RunRecord | None:
    """Of the first seed, finished if there is one."""
    records = arm.records or [run.record for run in arm.runs if run.record is not None]
    return next(iter(records), None)
