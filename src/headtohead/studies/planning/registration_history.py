"""The registrations of one study's folder: when each was made, how it differs from the one before, and what was
rewritten since."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headtohead.comparison.conditions import ABSENT, flat
from headtohead.studies.planning.registration import UNREGISTERED, SavedRegistration, is_of, registrations
from headtohead.studies.planning.study_plan import StudyPlan

_REWRITTEN = (*(name for name, why in UNREGISTERED.items() if "content" not in why), "tuning", "allow_unlike")
"""Fields of which the words at registration are shown beside those of today."""
_MOST = 6
"""Differences that a sentence names."""
_LONGEST = 80


@dataclass(frozen=True)
class PastRegistration:
    """One registration of the folder."""

    time: str
    """ISO 8601, in UTC."""
    differences: tuple[str, ...]
    """The differences from the registration before it."""
    is_this: bool
    """Whether it is that of what the study asks now."""


@dataclass(frozen=True)
class RegistrationHistory:
    """A registration history says what was asked in this folder, and when."""

    registrations: tuple[PastRegistration, ...] = ()
    """The first first."""
    rewritten: tuple[str, ...] = ()
    """Fields of the study that are not as this registration has them, with both values."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say nothing where there is one registration, and the study still reads as it did then."""
        return (*self._on_registrations(), *(f"rewritten after registration: {change}" for change in self.rewritten))

    def _on_registrations(self) -> Iterator[str]:
        count = len(self.registrations)
        number = next((index for index, one in enumerate(self.registrations, 1) if one.is_this), None)
        if count < 1 or (count == 1 and number is not None):
            return
        opening = "this question was not registered" if number is None else f"this is registration {number} of {count}"
        yield f"{opening} in this folder; " + "; ".join(
            f"{index} of {one.time}{_changes(one.differences)}" for index, one in enumerate(self.registrations, 1)
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sentences": list(self.sentences)}


def history_of(plan: StudyPlan) -> RegistrationHistory:
    """Read the registrations beside the runs."""
    written = registrations(plan)
    past = tuple(
        PastRegistration(
            one.time, tuple(_differences(written[index - 1], one)) if index else (), is_this=is_of(plan, one)
        )
        for index, one in enumerate(written)
    )
    ours = next((one.study for one in written if is_of(plan, one)), {})
    return RegistrationHistory(past, tuple(_rewritten(ours, asdict(plan.study))))


def _differences(before: SavedRegistration, after: SavedRegistration) -> Iterator[str]:
    """Yield what differs in fields of the study and in the baseline's configuration."""
    studies = [_plain(one.study) for one in (before, after)]
    for name in studies[0].keys() & studies[1].keys():
        if studies[0][name] != studies[1][name] and name != "base":
            yield _change(name, studies[0][name], studies[1][name])
    first, second = flat(before.configuration), flat(after.configuration)
    for key in sorted(first.keys() | second.keys()):
        if first.get(key) != second.get(key):
            yield _change(key, first.get(key, ABSENT), second.get(key, ABSENT))


def _rewritten(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    past, present = _plain(then), _plain(now)
    for name in _REWRITTEN:
        if name in past and past[name] != present[name]:
            yield _change(name, past[name], present[name])


def _plain(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return it as JSON has it, where a tuple is a list."""
    plain: dict[str, Any] = json.loads(json.dumps(study))
    return plain


def _change(name: str, before: Any, after: Any) -> str:
    return f"{name} {_short(before)} → {_short(after)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _changes(differences: tuple[str, ...]) -> str:
    if not differences:
        return ""
    more = f" and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
    return f" ({', '.join(differences[:_MOST])}{more})"
