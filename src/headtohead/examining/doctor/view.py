"""What the doctor found, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.examining.doctor import Diagnosis
from headtohead.examining.doctor.contracts import Verdict

_COLOURS: dict[Verdict, str] = {"ok": "green", "warning": "yellow", "fault": "bold red", "not applicable": "dim"}
_PLURAL: dict[Verdict, str] = {"fault": "faults", "warning": "warnings"}


def show(found: Sequence[Diagnosis]) -> RenderableType:
    """A line for each check, and a last one that counts."""
    table = Table(show_lines=False, pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what was found", ratio=3)
    table.add_column("what to do", ratio=2)
    for diagnosis in found:
        finding = diagnosis.finding
        verdict = "n/a" if finding.verdict == "not applicable" else finding.verdict
        style = "dim" if finding.verdict == "not applicable" else ""
        table.add_row(
            Text(diagnosis.check.name, style=style),
            Text(verdict, style=_COLOURS[finding.verdict]),
            Text(finding.says, style=style),
            Text(finding.advice),
        )
    return Group(table, Text(summary(found)))


def summary(found: Sequence[Diagnosis]) -> str:
    """How many of each verdict."""
    counts = Counter(diagnosis.finding.verdict for diagnosis in found)
    said = [
        f"{counts[verdict]} {_PLURAL.get(verdict, verdict) if counts[verdict] > 1 else verdict}"
        for verdict in _COLOURS
        if counts[verdict]
    ]
    return f"{', '.join(reversed(said))}; {sum(diagnosis.seconds for diagnosis in found):.1f} s"
