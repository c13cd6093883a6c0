"""The page around the sections: title, contents, theme, and Plotly once, under a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from headtohead.comparing.findings import Findings
from headtohead.comparing.pages import as_script, filled
from headtohead.comparing.report.parts import Section
from headtohead.comparing.report.rendering import Renderer
from headtohead.comparing.report.theme import Style, styles_of


def page(findings: Findings, sections: Sequence[Section]) -> str:
    """That of a comparison."""
    return page_of(
        sections,
        name=findings.title,
        heading=findings.question or findings.title,
        hypothesis=findings.hypothesis,
        styles=styles_of(findings),
    )


def page_of(
    sections: Sequence[Section],
    *,
    name: str,
    heading: str,
    hypothesis: str | None = None,
    styles: Mapping[str, Style] | None = None,
) -> str:
    """One file. Only the three scripts named by their hashes may run, and nothing may be fetched."""
    renderer = Renderer(styles or {})
    body = "\n".join(map(renderer.section, sections))
    plotly = _plotly() if renderer.figures else ""
    scripts = {"early": _part("early.js"), "plotly": plotly, "script": _part("report.js")}
    contents = "\n".join(f'<li><a href="#{escape(s.anchor)}">{escape(s.title)}</a></li>' for s in sections)
    return filled(
        _part("report.html"),
        {
            "hashes": " ".join(map(_hash, scripts.values())),
            "title": escape(heading),
            "early": scripts["early"],
            "style": _theme() + _part("report.css"),
            "name": escape(name),
            "contents": contents,
            "heading": escape(heading),
            "hypothesis": _hypothesis(hypothesis),
            "body": body,
            "content": as_script({"figures": renderer.figures}),
            "plotly": plotly,
            "script": scripts["script"],
        },
    )


def _hypothesis(text: str | None) -> str:
    return f'<p class="hypothesis"><span>Hypothesis</span>{escape(text)}</p>' if text else ""


def _hash(script: str) -> str:
    """As a content security policy names a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _plotly() -> str:
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@cache
def _theme() -> str:
    return (files("headtohead.comparing") / "theme.css").read_text(encoding="utf-8")


@cache
def _part(name: str) -> str:
    return (files("headtohead.comparing.report") / "files" / name).read_text(encoding="utf-8")
