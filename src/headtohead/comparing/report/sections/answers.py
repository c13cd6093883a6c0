"""The verdicts, before all else: a sentence for each contrast, and what stands between the runs and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headtohead.comparing.family import families_in
from headtohead.comparing.findings import Findings
from headtohead.comparing.report.parts import Answers, ArmName, Badge, Cell, Column, Part, Section, Table, Text
from headtohead.comparing.report.words import aim, level, metric_words
from headtohead.comparing.verdict import Verdict
from headtohead.comparing.wording import sentence

_MANY = 8
"""Verdicts from which on they are lines of a table."""


def section(findings: Findings) -> Section | None:
    plural = "s" if len(findings.verdicts) > 1 else ""
    return Section(f"Verdict{plural}", "verdict", tuple(_parts(findings)))


def _parts(findings: Findings) -> Iterator[Part]:
    if len(findings.verdicts) > _MANY:
        yield from _at_a_glance(findings.verdicts)
    elif findings.verdicts:
        yield Answers(findings.verdicts)
    else:
        yield Text("There is no verdict.")
    for remark in (*findings.history, *findings.remarks):
        yield Text(remark, "warning")
    for told in families_in(findings.verdicts):
        yield Text(f"{told}.", "note")
    yield Text(f"{_how(findings)} {_tuning(findings)}".rstrip(), "note")


def _at_a_glance(verdicts: Sequence[Verdict]) -> Iterator[Part]:
    """A line for each; what makes all of them exploratory is told once."""
    shared = verdicts[0].reasons if len({verdict.reasons for verdict in verdicts}) == 1 else ()
    if shared:
        yield Text(f"All verdicts are exploratory: {'; '.join(shared)}.", "warning")
    rows: list[list[Cell]] = [
        [
            ArmName(verdict.arm),
            Badge(verdict.kind, verdict.exploratory and not shared, verdict.why),
            sentence(replace(verdict, reasons=()) if shared else verdict),
        ]
        for verdict in verdicts
    ]
    yield Table([Column("arm"), Column("verdict"), Column("in words", wide=True)], rows)


def _how(findings: Findings) -> str:
    words = f"Judged by {metric_words(findings.metric)} ({aim(findings)}), intervals hold {level(findings.alpha)}"
    margin = f"; differences within ±{findings.margin:g} do not matter" if findings.margin is not None else ""
    budget = f"; arms have {findings.budget.replace('_', ' ')}" if findings.budget else ""
    return f"{words}{margin}{budget}."


def _tuning(findings: Findings) -> str:
    return f"Tuning: {findings.tuning_words.rstrip('.')}." if findings.tuning_words else ""
