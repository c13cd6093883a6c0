"""The seeds of a verdict against those that were registered, and the level of a look."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from headtohead.comparing.statistics.looks import levels

if TYPE_CHECKING:
    from headtohead.comparing.verdict import Registration


def level_of(registration: Registration, num_seeds: int, num_contrasts: int) -> float | None:
    """Return the level of this look, for a family of so many; None where it was not registered."""
    if not registration.looks:
        return registration.alpha
    if num_seeds not in registration.looks:
        return None
    spent = levels(registration.looks, alpha=registration.alpha, num_contrasts=num_contrasts)
    return spent[list(registration.looks).index(num_seeds)]


def departures(seeds: Collection[int], registration: Registration, level: float | None) -> Iterator[str]:
    """Yield why seeds are not those that were registered."""
    if registration.seeds is None:
        yield "no seeds were registered"
        return
    planned = sorted(registration.seeds)[: len(seeds) if registration.looks else None]
    added = sorted(set(seeds) - set(registration.seeds))
    missing = sorted(set(planned) - set(seeds))
    if added:
        yield f"seeds added after registration: {_listed(added)}"
    if level is None:
        yield f"a look at {len(seeds)} seeds was not registered"
    elif missing:
        yield f"registered seeds missing: {_listed(missing)}"


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
