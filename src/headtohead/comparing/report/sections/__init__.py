"""The sections of the report, in its order; each is left out where it has nothing to show."""

from __future__ import annotations

from collections.abc import Callable

from headtohead.comparing.findings import Findings
from headtohead.comparing.report.parts import Section
from headtohead.comparing.report.sections.answers import section as answers
from headtohead.comparing.report.sections.arms import section as arms

SECTIONS: tuple[Callable[[Findings], Section | None], ...] = (
    answers,
    arms,
)
