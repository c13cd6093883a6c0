"""What would be no surprise: verdicts, and how large a difference may be (`difference > -0.1`, arm minus baseline)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headtohead.building.kinds import Kind, OneOf
from headtohead.comparing.verdict import Verdict
from headtohead.studying.study import FLOOR, VERDICTS

_BOUND = re.compile(r"difference ([<>]) (-?\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class ExpectationKind(Kind):
    """One entry of a list: one of its verdicts comes out, and all of its bounds hold."""

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not (value in VERDICTS or _BOUND.fullmatch(value)):
            raise self.refuse()
        return value

    def wants(self) -> str:
        return f"{OneOf(VERDICTS).wants()}, or a bound such as difference < 0.1"


def surprise(verdict: Verdict, expected: Sequence[str]) -> str | None:
    """A sentence where it is not as expected."""
    kinds = [entry for entry in expected if entry in VERDICTS]
    bounds = [entry for entry in expected if entry not in VERDICTS]
    is_expected = verdict.kind in kinds or (verdict.neither_learned and FLOOR in kinds)
    if (not kinds or is_expected) and all(_holds(bound, verdict.difference) for bound in bounds):
        return None
    wanted = [*([f"to be {' or '.join(kinds)}"] if kinds else []), *(f"to have a {bound}" for bound in bounds)]
    size = (
        "" if not bounds else " without a difference" if verdict.difference is None else f" by {verdict.difference:.3g}"
    )
    return f"not as expected: {verdict.arm} was expected {' and '.join(wanted)}, and is {verdict.answer}{size}"


def _holds(bound: str, difference: float | None) -> bool:
    found = _BOUND.fullmatch(bound)
    assert found is not None, "bounds are read before they are asked"
    if difference is None:
        return False
    return difference < float(found[2]) if found[1] == "<" else difference > float(found[2])
