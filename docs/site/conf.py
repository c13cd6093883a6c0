"""Configure Sphinx: MyST reads the pages, furo shows them, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from importlib.metadata import version as installed_version
from typing import Any

from command_blocks import with_lines
from headtohead.comparison.report.number_format import with_minus

project = "Head to Head"
author = "the authors of Head to Head"
copyright = "the authors of Head to Head, Apache 2.0"
release = version = installed_version("headtohead")

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # blocks of YAML and shell with `...` in them

smartquotes = False

html_theme = "furo"
html_title = "Head to Head"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False  # no page defines entries: the index would be empty
html_show_sourcelink = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#8ab8f0", "color-brand-content": "#8ab8f0"},
}
pygments_style = "a11y-light"  # both of accessible-pygments, which furo installs
pygments_dark_style = "a11y-dark"


_NAME = re.compile(r'(<span class="pre">)([^<]{8,})(</span>)')
_BETWEEN = re.compile(r"(?<=[a-z0-9][_/.])(?=[a-z0-9])", re.IGNORECASE)


def setup(app: Any) -> None:
    """Let names in code break between their parts, where a column is narrow, and negative numbers have a minus."""
    app.connect("html-page-context", break_names)
    app.connect("html-page-context", sign_numbers)
    app.connect("html-page-context", mark_lines)


def break_names(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Put a place to break after each underscore, slash and dot of the long names of a page."""

    def broken(match: re.Match[str]) -> str:
        return f"{match[1]}{_BETWEEN.sub('<wbr>', match[2])}{match[3]}"

    if "body" in context:
        context["body"] = _NAME.sub(broken, context["body"])


def mark_lines(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Let the comments of commands stand in lines of their own where a page is narrow."""
    if "body" in context:
        context["body"] = with_lines(context["body"])


_TAG = re.compile(r"(<[^>]*>)")
_AS_TYPED = re.compile(r"<(/?)(?:code|pre|kbd|samp|script|style)\b")


def sign_numbers(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Write negative numbers of a page with a minus, as reports do; code stays as it is typed."""
    if "body" not in context:
        return
    parts, depth = _TAG.split(context["body"]), 0
    for index, part in enumerate(parts):
        if index % 2:
            tag = _AS_TYPED.match(part)
            depth += 0 if tag is None else -1 if tag[1] else 1
        elif not depth:
            parts[index] = with_minus(part)
    context["body"] = "".join(parts)
