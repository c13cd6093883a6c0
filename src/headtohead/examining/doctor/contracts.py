"""What a check of the doctor is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from headtohead.examining.doctor.patient import Patient

Verdict = Literal["ok", "warning", "fault", "not applicable"]


@dataclass(frozen=True)
class Finding:
    """A verdict, one sentence with the numbers behind it, and one with what to do where something is wrong."""

    verdict: Verdict
    says: str
    advice: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A question about a run, and how it is answered."""

    name: str
    question: str
    answer: Callable[[Patient], Finding]
    needs: tuple[str, ...] = ()
    """Checks whose faults would reach this one too, so that it could not tell its own."""


def not_applicable(why: str) -> Finding:
    return Finding("not applicable", why)
