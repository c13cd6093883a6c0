"""One page in one file: style, script and data go into a template, and nothing is asked of any other place."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any, Literal

from headtohead.comparing.pages import as_script, filled

PageName = Literal["attention", "data", "positions"]


def page(name: PageName, title: str, content: Mapping[str, Any]) -> str:
    """The page called `name`, showing `content`; every text in it may hold any characters."""
    parts = {
        "title": escape(title),
        "style": "\n".join(_part(file) for file in ("base.css", f"{name}.css")),
        "content": as_script(content),
        "script": "\n".join(_part(file) for file in ("base.js", "heat_map.js", f"{name}.js")),
    }
    return filled(_part("page.html"), parts)


def _part(name: str) -> str:
    return (files("headtohead.examining.probe") / "pages" / name).read_text(encoding="utf-8")
