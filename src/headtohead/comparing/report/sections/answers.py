"""The verdicts, before all else: a sentence for each contrast, and what stands between the runs and a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from headtohead.comparing.findings import Findings
from headtohead.comparing.report.parts import Answers, Part, Section, Text
from headtohead.comparing.report.words import aim, level, metric_words


def section(findings: Findings) -> Section | None:
    plural = "s" if len(findings.verdicts) > 1 else ""
    return Section(f"Verdict{plural}", "verdict", tuple(_parts(findings)))


def _parts(findings: Findings) -> Iterator[Part]:
    for remark in findings.remarks:
        yield Text(remark, "warning")
    if findings.verdicts:
        yield Answers(findings.verdicts)
    else:
        yield Text("There is no verdict.", "note")
    yield Text(f"{_how(findings)} {_tuning(findings)}".rstrip(), "note")


def _how(findings: Findings) -> str:
    words = f"Judged by {metric_words(findings.metric)} ({aim(findings)}), intervals hold {level(findings.alpha)}"
    margin = f"; differences within ±{findings.margin:g} do not matter" if findings.margin is not None else ""
    budget = f"; arms have {findings.budget.replace('_', ' ')}" if findings.budget else ""
    return f"{words}{margin}{budget}."


def _tuning(findings: Findings) -> str:
    return f"Tuning: {findings.tuning_words.rstrip('.')}." if findings.tuning_words else ""
