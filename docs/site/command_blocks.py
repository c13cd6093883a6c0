"""Blocks of commands on a phone: what a comment or an explanation says stands in a line of its own, above the command
or below the option, and the spaces that align it on a wide page are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLOCK = re.compile(
    r'(?s)(<div class="highlight-(bash|console|text) notranslate"><div class="highlight"><pre>)(.*?)(</pre>)'
)
_SPACES = r'(?:<span class="w">)? +(?:</span>)?'
_COMMENTED = re.compile(rf'(?P<typed>.*?\S)(?P<gap>{_SPACES})(?P<remark><span class="c1">#.*</span>)')
_EXPLAINED = re.compile(r"(?P<typed> *\S.*?)(?P<gap>(?<=\S) {2,})(?P<remark>\S.*)")
_CONTINUED = re.compile(r"(?P<typed>)(?P<gap> {12,})(?P<remark>\S.*)")
"""A line that continues what the one above explains."""
_OPTION = re.compile(r"(?<=[\s\[>])--?[a-z][a-z-]*")
_USAGE = "<span></span>usage:"
"""The beginning of a command's help, whose options stand as they are up to an empty line."""


_EXAMPLE = "  h2h "


def with_lines(body: str) -> str:
    """Mark the lines of a page's blocks of commands, and in each what is typed, the gap and the remark."""
    return _BLOCK.sub(lambda block: f"{block[1]}{''.join(_lines(block[3], block[2]))}{block[4]}", body)


def _lines(content: str, language: str) -> Iterator[str]:
    is_usage = False
    for line in content.splitlines(keepends=True):
        text, end = line.removesuffix("\n"), line[len(line.removesuffix("\n")) :]
        is_usage = text.startswith(_USAGE) or (is_usage and bool(text))
        forms = (_COMMENTED,) if language != "text" else () if is_usage else (_EXPLAINED, _CONTINUED)
        parts = next((match for form in forms if (match := form.fullmatch(text)) and _is_whole(match["typed"])), None)
        if parts is not None:
            typed = f'<span class="typed">{_with_options(parts["typed"])}</span>'
            gap = f'<span class="gap">{parts["gap"]}</span>'
            remark = f'<span class="remark">{parts["remark"]}{end}</span>'
            yield f'<span class="line {_KINDS[parts.re]}">{typed}{gap}{remark}</span>'
        elif (is_usage or language != "text" or text.startswith(_EXAMPLE)) and text and _is_whole(text):
            typed = text.lstrip() if is_usage else text
            yield f'<span class="line"><span class="gap">{text[: -len(typed)]}</span>{_with_options(typed)}{end}</span>'
        else:
            yield line


_KINDS = {_COMMENTED: "commented", _EXPLAINED: "explained", _CONTINUED: "explained"}


def _with_options(text: str) -> str:
    """Mark the options, which no line end divides behind their hyphens."""
    return _OPTION.sub(r'<span class="option">\g<0></span>', text)


def _is_whole(text: str) -> bool:
    """Return whether no token of the highlighting begins before the text or goes on behind it."""
    return text.count("<span") == text.count("</span")
