"""Make links of what pages name in prose: other pages of `docs/`, and addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import zip_longest

from study_headers import address_name

_CODE = re.compile(r"(^[ \t]*```.*?^[ \t]*```|`[^`\n]*`)", flags=re.DOTALL | re.MULTILINE)
_MENTION = re.compile(r"(?<![\w/.\[])(?<!\]\()docs/([\w/]+)\.md(?![\w#])")
"""A page that is named and not linked."""
_ADDRESS = re.compile(r"(?<!\]\()(?<![\[<\"'])https://[^\s)>,;|]+[^\s)>,;|.]")
"""An address that is not a link yet."""


def with_mentions_linked(text: str, depth: int) -> str:
    """Return a page on which `docs/study.md`, as sources mention it, leads to that page of the site.

    `depth` is the number of folders that the page lies in.
    """
    up = "../" * depth
    return _in_prose(text, lambda prose: _MENTION.sub(lambda match: f"[{match[1]}]({up}{match[1]}.md)", prose))


def with_addresses_linked(text: str) -> str:
    """Return a page on which every address of the web is a link, named by what it is."""
    return _in_prose(text, lambda prose: _ADDRESS.sub(lambda match: f"[{address_name(match[0])}]({match[0]})", prose))


def _in_prose(text: str, change: Callable[[str], str]) -> str:
    """Return a page whose prose is changed; code stays as it is."""
    parts = _CODE.split(text)
    pairs = zip_longest(map(change, parts[::2]), parts[1::2], fillvalue="")
    return "".join(part for pair in pairs for part in pair)
