"""Runs that arms start from: made before the runs that count, one for every seed, so that their randomness counts too.

Where arms are tuned, the seed of the trials has one as well; foundations themselves are not tuned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import unknown
from headtohead.execution.run_spec import FROM_RUN
from headtohead.studies.definition.study import Study

FIELD, PREFIX = "init_from", "foundation:"


@dataclass(frozen=True)
class FoundationRun:
    """A run to start from: where it is, and what it is."""

    folder: Path
    id: str

    @property
    def override(self) -> str:
        return f"{FIELD}={FROM_RUN}{self.folder}"


def foundation_of(study: Study, arm: str) -> str | None:
    """The foundation that an arm starts from; None where it starts from nothing of the study."""
    starts = [override for override in (*study.base, *study.arms[arm]) if key_of(override) == FIELD]
    value = starts[-1].partition("=")[2] if starts else ""
    return value.removeprefix(PREFIX) if value.startswith(PREFIX) else None


def without_foundation(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides that can be composed while the foundation does not exist yet."""
    return tuple(override for override in overrides if not override.startswith(f"{FIELD}={PREFIX}"))


def used(study: Study) -> list[str]:
    """The foundations that arms start from, in the order of the study."""
    names = {foundation_of(study, arm) for arm in study.arms}
    return [name for name in study.foundations if name in names]


def foundation_faults(study: Study) -> Iterator[str]:
    names = {arm: name for arm in study.arms if (name := foundation_of(study, arm)) is not None}
    for arm, name in names.items():
        if name not in study.foundations:
            yield unknown(f"arm {arm} starts from {PREFIX}{name}, which is none", name, list(study.foundations))
    for name in study.foundations:
        if name not in names.values():
            yield f"no arm starts from foundation {name}: write {FIELD}={PREFIX}{name} among the overrides of one"
        if name in study.arms:
            yield f"{name} is an arm and a foundation: give it another name"
