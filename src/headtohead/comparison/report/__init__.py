"""report.html: all that a comparison found, in one file that asks nothing of any other place."""

from __future__ import annotations

from pathlib import Path

from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.page import page
from headtohead.comparison.report.sections import SECTIONS
from headtohead.files.atomic_write import replace_text

FILE = "report.html"


def report(findings: ComparisonResults) -> str:
    """Return the page."""
    sections = [section(findings) for section in SECTIONS]
    return page(findings, [section for section in sections if section is not None])


def write_report(results: ComparisonResults, file: Path) -> None:
    """Replaces the file as a whole."""
    replace_text(file, report(results))
