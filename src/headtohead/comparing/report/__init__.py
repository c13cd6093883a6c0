"""report.html: all that a comparison found, in one file that asks nothing of any other place."""

from __future__ import annotations

from pathlib import Path

from headtohead.comparing.findings import Findings
from headtohead.comparing.report.page import page
from headtohead.comparing.report.sections import SECTIONS
from headtohead.files.writing import replace_text

FILE = "report.html"


def report(findings: Findings) -> str:
    """The page."""
    found = [section(findings) for section in SECTIONS]
    return page(findings, [section for section in found if section is not None])


def write_report(findings: Findings, file: Path) -> None:
    """Replaces the file as a whole."""
    replace_text(file, report(findings))
