"""`make parity` writes what the comparisons found into docs/parity.md, and by family into the package."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from headtohead.pretrained.families import FAMILIES, FILE, ParityEvidence
from parity import law_table, parity

_TITLE = """# Equal to their references

We built each model below twice, with an independent published implementation and with ours, and gave both the same
weights. Every parameter was redrawn, so that no initial 0 or 1 hides a swap. The table shows the largest differences
of logits and of parameter gradients (relative to the largest entry of gradients above 1), in 64 bits (bound 1e-10)
and in 32 bits (bound 5e-5). References that cast to 32 bits internally are kept in 64 bits for the former. `make
parity` writes this page.

| model | reference | logits, 64 bits | gradients, 64 bits | logits, 32 bits | gradients, 32 bits | parameters covered |
| --- | --- | --- | --- | --- | --- | --- |
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-parity", default=None, help="where to write the table of all comparisons")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    path = session.config.getoption("--write-parity", default=None)
    if path and exitstatus == 0:
        Path(path).write_text(page(parity.REPORTS), encoding="utf-8")
        if law_table.OUTCOMES.keys() == {family.model_type for family in FAMILIES}:
            FILE.write_text(json.dumps(by_family(parity.REPORTS), indent=2) + "\n", encoding="utf-8")


def by_family(reports: list[parity.Report]) -> dict[str, dict[str, int | float]]:
    """Return what the comparisons showed of every family, as `h2h list pretrained` says it."""
    result = {}
    for kind in (family.model_type for family in FAMILIES):
        errors = [report.errors[torch.float32] for report in reports if report.family == kind]
        outcomes = law_table.OUTCOMES[kind]
        evidence = ParityEvidence(
            models=len(errors),
            logits=_rounded(max(one.logits for one in errors)),
            gradients=_rounded(max(one.gradients for one in errors)),
            changes=outcomes.total(),
            equal=outcomes["equal"],
            refused=outcomes["refused here"] + outcomes["refused there"],
            announced=outcomes["differs as said"],
        )
        result[kind] = asdict(evidence)
    return result


def _rounded(figure: float) -> float:
    return float(f"{figure:.1e}")


def page(reports: list[parity.Report]) -> str:
    """One row for each model, and what differs by design below."""
    rows = [_row(report, number) for report, number in _numbered(reports)]
    notes = [f"{number}. {report.name}: {report.remark}." for report, number in _numbered(reports) if number]
    law = law_table.section(law_table.OUTCOMES, law_table.OF_FIELDS) if law_table.OUTCOMES else ""
    return _TITLE + "\n".join(rows) + ("\n\n" + "\n".join(notes) if notes else "") + "\n" + law


def _numbered(reports: list[parity.Report]) -> list[tuple[parity.Report, int | None]]:
    numbers = iter(range(1, len(reports) + 1))
    return [(report, next(numbers) if report.remark else None) for report in reports]


def _row(report: parity.Report, number: int | None) -> str:
    errors = [report.errors[dtype] for dtype in (torch.float64, torch.float32)]
    figures = [f"{figure:.1e}" for result in errors for figure in (result.logits, result.gradients)]
    name = report.name if number is None else f"{report.name} ({number})"
    covered = f"{report.num_tensors} tensors, {report.num_weights} weights"
    return f"| {name} | {report.reference} | {' | '.join(figures)} | {covered} |"
