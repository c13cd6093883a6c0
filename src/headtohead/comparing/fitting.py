"""Tables for a terminal of any width: rather two than one that leaves letters out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table

_WIDE = 10_000


@dataclass(frozen=True)
class Fitted:
    """The whole where there is room for it, else its parts."""

    whole: Table
    parts: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wanted = Measurement.get(console, options.update(max_width=_WIDE), self.whole).maximum
        yield from (self.whole,) if wanted <= options.max_width else self.parts
