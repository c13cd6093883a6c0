"""What the doctor found, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.examining.doctor import Diagnosis
from headtohead.examining.doctor.contracts import Verdict

_COLOURS: dict[Verdict, str] = {"fault": "bold red", "warning": "yellow", "ok": "green", "not applicable": "dim"}
_PLURAL: dict[Verdict, str] = {"fault": "faults", "warning": "warnings"}


def show(found: Sequence[Diagnosis]) -> RenderableType:
    """A line for each check, its advice below where there is one, and a last line that counts."""
    table = Table(pad_edge=False)
    for name in ("check", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("what was found, and what to do")
    for diagnosis in found:
        finding = diagnosis.finding
        is_left_out = finding.verdict == "not applicable"
        style = "dim" if is_left_out else ""
        said = Text(finding.says, style=style)
        if finding.advice:
            said.append(f"\n-> {finding.advice}", style="bold")
        verdict = "n/a" if is_left_out else finding.verdict
        table.add_row(Text(diagnosis.check.name, style=style), Text(verdict, style=_COLOURS[finding.verdict]), said)
    return Group(table, Text(summary(found)))


def summary(found: Sequence[Diagnosis]) -> str:
    """How many of each verdict, the gravest first."""
    counts = Counter(diagnosis.finding.verdict for diagnosis in found)
    said = [
        f"{counts[verdict]} {_PLURAL.get(verdict, verdict) if counts[verdict] > 1 else verdict}"
        for verdict in _COLOURS
        if counts[verdict]
    ]
    if not counts["fault"]:
        said.insert(0, "no fault")
    return f"{', '.join(said)} ({sum(diagnosis.seconds for diagnosis in found):.1f} s)"
