"""A comparison names a piece of work, its peer, and the ratio that we aim at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headtohead.diagnostics.peers.alternation import Work


@dataclass(frozen=True)
class Pair:
    """The same work by us and by the peer."""

    ours: Work
    theirs: Work


@dataclass(frozen=True)
class PeerComparison:
    """One line of the page of speeds."""

    group: str
    """A word by which lines are chosen: gpt, bert, decoding ..."""
    work: str
    peer: str
    target: float
    """The ratio of the peer's time to ours that we aim at."""
    make: Callable[[], Pair]
    package: str = "torch"
    """What the peer is imported from."""
    measures: str = "time"
    """`time`, or `memory`: the peak of what is allocated."""
    remark: str = ""
    """What bounds the ratio, where that is known."""
