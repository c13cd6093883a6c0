"""The exact configurations: what differs from the baseline, everything in full, and the commands that make it again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from headtohead.comparing.findings import Findings, Found, FoundArm
from headtohead.comparing.report.parts import ArmName, Cell, Code, Column, Folded, Part, Section, Table, Text
from headtohead.comparing.report.words import UNKNOWN, metric_words
from headtohead.comparing.table import number
from headtohead.tracking.record import RunRecord
from headtohead.tracking.secrets import mask_secrets

_NAMES = ("name", "group", "tags", "notes", "output_dir", "resume_from", "seed", "tracking", "choices")
"""How a run is called and where it goes; it is the same experiment whatever they are."""
_ABSENT = "(not there)"


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
    again = f"import headtohead, yaml; headtohead.train(yaml.safe_load(open({os.path.relpath(file)!r})))"
    return f"python -c {shlex.quote(again)}" if file.is_file() else None


def _differences(findings: Findings) -> Iterator[Part]:
    flat = {arm.name: _flat(record.config) for arm in findings.arms if (record := _record(arm)) is not None}
    baseline = flat.pop(findings.baseline, None)
    if not baseline or not flat:
        return
    fields = sorted(
        {
            key
            for config in flat.values()
            for key in config.keys() | baseline.keys()
            if config.get(key, _ABSENT) != baseline.get(key, _ABSENT)
        }
    )
    if not fields:
        yield Text("The arms' configurations do not differ, seeds and names aside.", "note")
        return
    configs = {findings.baseline: baseline, **flat}
    rows: list[list[Cell]] = []
    for key in fields:
        rows.append(
            [Code(key), *(_value(config, baseline, key, name == findings.baseline) for name, config in configs.items())]
        )
    caption = (
        f"Where configurations differ. Every field in which an arm is not like {findings.baseline}, of the first seed "
        "that ran; a dot: like the baseline. Names and seeds aside, all other fields are equal."
    )
    yield Table([Column("field"), *(Column(name) for name in configs)], rows, caption)


def _value(config: Mapping[str, str], baseline: Mapping[str, str], key: str, is_baseline: bool) -> Cell:
    value = config.get(key, _ABSENT)
    if not is_baseline and value == baseline.get(key, _ABSENT):
        return "·"
    return UNKNOWN if value == _ABSENT else Code(value)


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


def _flat(config: Any, above: str = "") -> dict[str, str]:
    if isinstance(config, Mapping) and config:
        parts = (
            _flat(value, f"{above}.{key}" if above else str(key))
            for key, value in config.items()
            if above or key not in _NAMES
        )
        return {key: value for part in parts for key, value in part.items()}
    return {above: str(config)} if above else {}
