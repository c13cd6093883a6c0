"""Whether records may be compared at all: what they measured, on which tokens, and what their loss is a mean over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headtohead.tracking.record import RunRecord

_SHARED_BY_ALL: Mapping[str, str] = {"loss_normalisation": "loss normalisation"}
_SHARED_BY_A_SEED: Mapping[str, str] = {"tokenizer": "tokenizer", "evaluation": "evaluation data"}
"""A seed may draw the data: it is the same in every arm, and may be another for the next seed."""


class NotComparable(ValueError):  # noqa: N818
    """Says what differs, and which run is the odd one out."""


def refuse_unlike(records: Iterable[RunRecord]) -> None:
    """Raises NotComparable at the first difference that would make a comparison meaningless."""
    given = list(records)
    for field, told in _SHARED_BY_ALL.items():
        _refuse(given, field, told)
    for seed in sorted({record.seed for record in given}):
        same = [record for record in given if record.seed == seed]
        for field, told in _SHARED_BY_A_SEED.items():
            _refuse(same, field, told)


def _refuse(records: Sequence[RunRecord], field: str, told: str) -> None:
    found = {record.id: getattr(record.comparability, field) for record in records}
    counted = Counter(found.values()).most_common()
    if len(counted) < 2:
        return
    usual, times = counted[0]
    if times == counted[1][1]:
        sides = " and ".join(f"{_named(records, found, value)} ({value})" for value, _ in counted)
        raise NotComparable(f"these runs differ in their {told}: {sides}; compare only runs that share it")
    odd = ", ".join(f"{_named(records, found, value)} has {value}" for value, _ in counted[1:])
    raise NotComparable(f"the odd one out in its {told}: {odd}, the others {usual}; leave it out, or run it like them")


def _named(records: Sequence[RunRecord], found: Mapping[str, str | None], value: str | None) -> str:
    return ", ".join(
        f"{record.name or record.id} (seed {record.seed})" for record in records if found[record.id] == value
    )
