"""The page around the sections: title, contents, theme, and Plotly once, under a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from headtohead.comparison.arm_colours import ArmStyle, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.html_renderer import HtmlRenderer
from headtohead.comparison.report.map_pictures import shades
from headtohead.comparison.report.section_parts import Section


def page(results: ComparisonResults, sections: Sequence[Section]) -> str:
    """Return that of a comparison."""
    return page_of(
        sections,
        name=results.title,
        heading=results.question or results.title,
        hypothesis=results.hypothesis,
        styles=styles_of(results),
    )


def page_of(
    sections: Sequence[Section],
    *,
    name: str,
    heading: str,
    hypothesis: str | None = None,
    styles: Mapping[str, ArmStyle] | None = None,
) -> str:
    """Return one file. Only the three scripts named by their hashes may run, and nothing may be fetched."""
    renderer = HtmlRenderer(styles or {})
    body = "\n".join(map(renderer.section, sections))
    plotly = _plotly() if renderer.figures else ""
    scripts = {"early": _shared("page_kit.js"), "plotly": plotly, "script": _part("report.js")}
    contents = "\n".join(f'<li><a href="#{escape(s.anchor)}">{escape(s.title)}</a></li>' for s in sections)
    return filled(
        _part("report.html"),
        {
            "hashes": " ".join(map(_hash, scripts.values())),
            "title": escape(heading),
            "early": scripts["early"],
            "style": _shared("theme.css") + _part("report.css"),
            "name": escape(name),
            "contents": contents,
            "heading": escape(heading),
            "hypothesis": _hypothesis(hypothesis),
            "body": body,
            "content": as_script({"figures": renderer.figures, "shades": _shades()}),
            "plotly": plotly,
            "script": scripts["script"],
        },
    )


def _shades() -> dict[str, list[str]]:
    """Return the colours of maps from the low end of a scale to the high one, by which the page reads its pictures."""
    by_kind = {"sequential": shades(signed=False), "diverging": shades(signed=True)}
    return {kind: ["{:02x}{:02x}{:02x}".format(*colour) for colour in colours] for kind, colours in by_kind.items()}


def _hypothesis(text: str | None) -> str:
    return f'<p class="hypothesis"><span>Hypothesis</span>{escape(text)}</p>' if text else ""


def _hash(script: str) -> str:
    """Return the hash by which a content security policy names a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _plotly() -> str:
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@cache
def _shared(name: str) -> str:
    return (files("headtohead.comparison") / name).read_text(encoding="utf-8")


@cache
def _part(name: str) -> str:
    return (files("headtohead.comparison.report") / "files" / name).read_text(encoding="utf-8")


# What would end a script element or open a comment in it.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return the template with each {{name}} replaced, in the order of the parts, which is that of their places."""
    # From the left, so that no content is taken for a place to be filled.
    pieces = []
    rest = template
    for index, content in parts.items():
        before, marker, rest = rest.partition(f"{{{{{index}}}}}")
        assert marker, f"the template has no {{{{{index}}}}} after the places before it"
        pieces += [before, content]
    return "".join([*pieces, rest])


def as_script(content: Mapping[str, object]) -> str:
    """JSON that is also safe between <script> and </script>."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)
