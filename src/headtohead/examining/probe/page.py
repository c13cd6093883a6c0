"""One page in one file: style, script and data go into a template, and nothing is asked of any other place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any, Literal

PageName = Literal["attention", "data", "positions"]
# What would end a script element or open a comment in it.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def page(name: PageName, title: str, content: Mapping[str, Any]) -> str:
    """The page called `name`, showing `content`; every text in it may hold any characters."""
    parts = {
        "title": escape(title),
        "style": "\n".join(_part(file) for file in ("base.css", f"{name}.css")),
        "script": "\n".join(_part(file) for file in ("base.js", "heat_map.js", f"{name}.js")),
        "content": as_script(content),
    }
    # Filled from the left, so that no content is taken for a place to be filled.
    pieces = []
    rest = _part("page.html")
    for place in ("title", "style", "content", "script"):
        before, _, rest = rest.partition(f"{{{{{place}}}}}")
        pieces += [before, parts[place]]
    return "".join([*pieces, rest])


def as_script(content: Mapping[str, Any]) -> str:
    """JSON that is also safe between <script> and </script>."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)


def _part(name: str) -> str:
    return (files("headtohead.examining.probe") / "pages" / name).read_text(encoding="utf-8")
