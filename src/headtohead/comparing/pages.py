"""Pages in one file: parts go into a template, and no text in them can become markup or script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# What would end a script element or open a comment in it.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with each {{name}} replaced, in the order of the parts, which is that of their places."""
    # From the left, so that no content is taken for a place to be filled.
    pieces = []
    rest = template
    for place, content in parts.items():
        before, found, rest = rest.partition(f"{{{{{place}}}}}")
        assert found, f"the template has no {{{{{place}}}}} after the places before it"
        pieces += [before, content]
    return "".join([*pieces, rest])


def as_script(content: Mapping[str, Any]) -> str:
    """JSON that is also safe between <script> and </script>."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)
