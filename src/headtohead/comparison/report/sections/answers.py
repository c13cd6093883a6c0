"""The verdicts, before all else: a sentence for each contrast, and what stands between the runs and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.contrasts import Verdict
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import aim
from headtohead.comparison.report.section_parts import (
    ArmName,
    Badge,
    Cell,
    Column,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
    VerdictList,
)
from headtohead.comparison.verdicts.contrast_family import families_in
from headtohead.comparison.verdicts.verdict_text import coverage, sentence
from headtohead.records.metrics_file import multiple_of

_SPLITS = ("test", "validation", "train")
_MANY = 8
"""Verdicts from which on they are lines of a table."""


def section(results: ComparisonResults) -> Section | None:
    plural = "s" if len(results.verdicts) > 1 else ""
    return Section(f"Verdict{plural}", "verdict", tuple(_parts(results)))


def _parts(results: ComparisonResults) -> Iterator[SectionPart]:
    if len(results.verdicts) > _MANY:
        yield from _at_a_glance(results.verdicts)
    elif results.verdicts:
        yield VerdictList(results.verdicts, judged_by(results))
    else:
        yield ReportText("There is no verdict.")
    for remark in (*results.history, *results.remarks):
        yield ReportText(remark, "warning")
    for family in families_in(results.verdicts):
        yield ReportText(f"{family}.", "note")
    yield ReportText(f"{_how(results)} {_tuning(results)}".rstrip(), "note")


def _at_a_glance(verdicts: Sequence[Verdict]) -> Iterator[SectionPart]:
    """Yield a line for each; what makes all of them exploratory is reported once."""
    shared = verdicts[0].reasons if len({verdict.reasons for verdict in verdicts}) == 1 else ()
    if shared:
        yield ReportText(f"All verdicts are exploratory: {'; '.join(shared)}.", "warning")
    rows: list[list[Cell]] = [
        [
            ArmName(verdict.arm),
            Badge(verdict.kind, verdict.exploratory and not shared, verdict.why),
            sentence(replace(verdict, reasons=()) if shared else verdict),
        ]
        for verdict in verdicts
    ]
    yield ReportTable([Column("arm"), Column("verdict"), Column("in words", wide=True)], rows)


def judged_by(results: ComparisonResults) -> str:
    """Return the metric with its split, and the length of its rows as a multiple of that of training."""
    stage, _, name = results.metric.partition("/")
    words = name.replace("_", " ")
    if stage not in _SPLITS and multiple_of(stage) is None:
        return metric_words(results.metric)
    multiple = multiple_of(stage) or 1
    has_lengths = results.lengths is not None or multiple != 1
    length = f", {'the length' if multiple == 1 else f'{multiple}x the length'} of training" if has_lengths else ""
    return f"{words} on {stage.partition('_')[0]} data{length}, {aim(results)}"


def _how(results: ComparisonResults) -> str:
    words = f"Judged by {metric_words(results.metric)} ({aim(results)}), intervals hold {coverage(results.alpha)}"
    margin = f"; differences within ±{results.margin:g} do not matter" if results.margin is not None else ""
    budget = f"; arms have {results.budget.replace('_', ' ')}" if results.budget else ""
    return f"{words}{margin}{budget}."


def _tuning(results: ComparisonResults) -> str:
    return f"Tuning: {results.tuning_words.rstrip('.')}." if results.tuning_words else ""
