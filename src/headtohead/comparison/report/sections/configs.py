"""The exact configurations: what differs from the baseline, everything in full, and the commands that make it again;
and where the runs ran (versions, device, commit) and what they shared, so that they may be compared."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from headtohead.comparison.comparison_results import ArmResult, ComparisonResults, RunResult
from headtohead.comparison.conditions import ABSENT, NAMES_AND_PATHS, flat
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import UNKNOWN
from headtohead.comparison.report.section_parts import (
    ArmName,
    Cell,
    Code,
    CollapsedParts,
    Column,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
)
from headtohead.comparison.tables.run_table import number
from headtohead.records.record import RunRecord
from headtohead.records.secrets import mask_secrets

_NAMES = (*NAMES_AND_PATHS, "seed")
"""The fields that name a run and say where it goes; it is the same experiment whatever they are."""
_MANY = 7
"""Arms beside the baseline from which on they have no columns of their own."""


def section(results: ComparisonResults) -> Section | None:
    parts = [*_commands(results), *_differences(results), *_in_full(results)]
    return Section("To reproduce", "reproduce", parts) if parts else None


def _commands(results: ComparisonResults) -> Iterator[SectionPart]:
    if results.command:
        again = "Run the whole study, or resume it, and write this report:"
        yield ReportText(again if results.resumes else "Write this report again from the current runs:")
        yield Code(results.command)
    rows: list[list[Cell]] = [
        [ArmName(run.arm), str(run.seed), number(run.value), Code(command)]
        for run in results.runs
        if (command := _command(run))
    ]
    if rows:
        columns = [Column("arm"), Column("seed", True), Column(metric_words(results.metric), True), Column("command")]
        yield CollapsedParts(f"The command of each run ({len(rows)})", [ReportTable(columns, rows)])


def _command(run: RunResult) -> str | None:
    if run.command or run.record is None or run.record.path is None:
        return run.command
    file = run.record.path / "config.yaml"
    return f"h2h train --from-run {shlex.quote(os.path.relpath(run.record.path))}" if file.is_file() else None


def _differences(results: ComparisonResults) -> Iterator[SectionPart]:
    settings = {
        arm.name: flat(record.config, without=_NAMES) for arm in results.arms if (record := _record(arm)) is not None
    }
    baseline = settings.pop(results.baseline, None)
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
        yield ReportText("The arms' configurations differ only in seeds and names.", "note")
        return
    chosen = {override.lstrip("+~").partition("=")[0] for arm in results.arms for override in arm.overrides}
    defaults = [field for field in fields if field not in chosen and _is_default(field, fields)]
    table = _side_by_side if len(settings) < _MANY else _by_value
    shown = [field for field in fields if field not in defaults]
    yield table(results.baseline, baseline, settings, shown)
    if defaults:
        summary = f"What comes with these classes: arguments that no override names ({len(defaults)})"
        yield CollapsedParts(summary, [table(results.baseline, baseline, settings, defaults)], printed=False)


def _is_default(field: str, fields: Collection[str]) -> bool:
    """Return whether a field is an argument of a class that differs too: it came with the class."""
    parts = field.split(".")
    return parts[-1] != "_target_" and any(
        f"{'.'.join(parts[:length])}._target_" in fields for length in range(1, len(parts))
    )


def _side_by_side(
    name: str, baseline: Mapping[str, str], others: Mapping[str, Mapping[str, str]], fields: Sequence[str]
) -> ReportTable:
    rows: list[list[Cell]] = []
    for key in fields:
        own = [_value(config, baseline, key) for config in others.values()]
        rows.append([Code(key), _cell(baseline.get(key, ABSENT)), *own])
    caption = f"{_caption(name)} A dot: like the baseline."
    return ReportTable([Column("field"), Column(name), *(Column(other) for other in others)], rows, caption)


def _by_value(
    name: str, baseline: Mapping[str, str], others: Mapping[str, Mapping[str, str]], fields: Sequence[str]
) -> ReportTable:
    """Many arms would be columns that no page holds."""
    rows: list[list[Cell]] = []
    for key in fields:
        own = baseline.get(key, ABSENT)
        who: dict[str, list[str]] = {}
        for arm, config in others.items():
            if (value := config.get(key, ABSENT)) != own:
                who.setdefault(value, []).append(arm)
        displayed = (
            f"{value} of {'all others' if len(arms) == len(others) else ', '.join(arms)}" for value, arms in who.items()
        )
        rows.append([Code(key), _cell(own), "; ".join(displayed)])
    columns = [Column("field"), Column(name), Column("of other arms", wide=True)]
    return ReportTable(columns, rows, f"{_caption(name)} Arms that are not named are like the baseline.")


def _caption(baseline: str) -> str:
    return (
        f"Where configurations differ. Every field in which an arm differs from {baseline}, for the first seed that "
        "ran. Apart from names and seeds, all other fields are equal."
    )


def _value(config: Mapping[str, str], baseline: Mapping[str, str], key: str) -> Cell:
    value = config.get(key, ABSENT)
    return "·" if value == baseline.get(key, ABSENT) else _cell(value)


def _cell(value: str) -> Cell:
    return UNKNOWN if value == ABSENT else Code(value)


def _in_full(results: ComparisonResults) -> Iterator[SectionPart]:
    import yaml

    for arm in results.arms:
        record = _record(arm)
        if record is not None and record.config:
            text = yaml.safe_dump(mask_secrets(record.config), sort_keys=False, allow_unicode=True, width=110)
            yield CollapsedParts(
                f"{arm.name}: the whole configuration (seed {record.seed})", [Code(text)], printed=False
            )


def _record(arm: ArmResult) -> RunRecord | None:
    """Return the record of the arm's first seed, preferably a finished one."""
    records = arm.records or [run.record for run in arm.runs if run.record is not None]
    return next(iter(records), None)


def environment_section(results: ComparisonResults) -> Section | None:
    records = [run.record for run in results.runs if run.record is not None]
    rows = list(_rows(records))
    if not rows:
        return None
    caption = "Where the runs ran, by their records; if they differ, every value with the number of its runs."
    return Section(
        "Environment", "environment", [ReportTable([Column("what"), Column("as recorded", wide=True)], rows, caption)]
    )


def _rows(records: list[RunRecord]) -> Iterator[list[Cell]]:
    facts = [dict(_facts(record)) for record in records]
    for name in dict.fromkeys(name for fact in facts for name in fact):
        counted = Counter(fact[name] for fact in facts if name in fact).most_common()
        values = [
            value if len(counted) == 1 else f"{value} ({times} run{'' if times == 1 else 's'})"
            for value, times in counted
        ]
        yield [name, Code(", ".join(values))]


def _facts(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield the facts that are known."""
    where, shared = record.environment, record.comparability
    device = {key: value for key, value in where.device.items() if value not in (None, "", {})}
    facts = {
        "device": ", ".join(f"{key} {_kernels(value) if key == 'kernels' else value}" for key, value in device.items()),
        "precision": shared.precision or "",
        "git commit": _commit(where.git_commit, where.git_dirty),
        "git commit of headtohead": _commit(where.package_commit, where.package_dirty),
        **{
            f"module {name}": _commit(code["commit"] or code["sha256"], code["dirty"])
            for name, code in where.modules.items()
        },
        "python": where.python,
        "platform": where.platform,
        "packages": ", ".join(f"{name} {version}" for name, version in where.packages.items()),
        "data": shared.data or "",
        "tokenizer": shared.tokenizer or "",
        **_reading(record),
        "evaluation": shared.evaluation or "",
        "loss normalisation": shared.loss_normalisation or "",
    }
    yield from ((name, value) for name, value in facts.items() if value)


def _kernels(kernels: Mapping[str, str]) -> str:
    """Return each kernel with the number of layers that it computes."""
    counted = Counter(kernels.values())
    return ", ".join(f"{kernel} ({times} layer{'' if times == 1 else 's'})" for kernel, times in counted.items())


def _commit(commit: str | None, dirty: bool | None) -> str:
    return f"{commit}{' and changes' if dirty else ''}" if commit else ""


def _reading(record: RunRecord) -> dict[str, str]:
    """Describe, split by split, how the run's tokenizer reads the texts."""
    data = record.data
    if "vocab_size" not in data:
        return {}
    per_token = ", ".join(f"{name} {value:.2f}" for name, value in data.get("bytes_per_token", {}).items())
    unknown = ", ".join(f"{name} {value:.2%}" for name, value in data.get("unknown_share", {}).items())
    cut = ", ".join(f"{name} {value:.1%}" for name, value in data.get("cut_share", {}).items())
    return {
        "vocabulary": f"{data['tokenizer']} of {data['vocab_size']} tokens",
        "bytes per token": per_token,
        "unknown tokens": unknown,
        **({f"texts cut at {data['max_length']} tokens": cut} if cut else {}),
    }
