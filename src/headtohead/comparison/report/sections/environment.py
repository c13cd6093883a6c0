"""Show where the runs ran (versions, device, commit) and what they shared, so that they may be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.section_parts import Cell, Code, Column, ReportTable, Section
from headtohead.records.record import RunRecord


def section(results: ComparisonResults) -> Section | None:
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
