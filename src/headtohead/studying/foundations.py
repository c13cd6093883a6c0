"""Runs that arms start from: made before the runs that count, one for every seed, so that their chance is told too.

Where arms are tuned, the seed of the trials has one as well; foundations themselves are not tuned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.building.errors import unknown
from headtohead.building.overrides import key_of
from headtohead.comparing.table import count
from headtohead.studying.study import Study

if TYPE_CHECKING:
    from headtohead.studying.cells import Cell
    from headtohead.tracking.record import RunRecord

FIELD, PREFIX, FROM_RUN = "init_from", "foundation:", "run:"


@dataclass(frozen=True)
class Start:
    """A run to start from: where it is, and what it is."""

    folder: Path
    id: str

    @property
    def override(self) -> str:
        return f"{FIELD}={FROM_RUN}{self.folder}"


def foundation_of(study: Study, arm: str) -> str | None:
    """The foundation that an arm starts from; None where it starts from nothing of the study."""
    given = [override for override in (*study.base, *study.arms[arm]) if key_of(override) == FIELD]
    value = given[-1].partition("=")[2] if given else ""
    return value.removeprefix(PREFIX) if value.startswith(PREFIX) else None


def without_foundation(overrides: Sequence[str]) -> tuple[str, ...]:
    """What is left to compose while the foundation is not laid."""
    return tuple(override for override in overrides if not override.startswith(f"{FIELD}={PREFIX}"))


def used(study: Study) -> list[str]:
    """The foundations that arms start from, in the order of the study."""
    asked = {foundation_of(study, arm) for arm in study.arms}
    return [name for name in study.foundations if name in asked]


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


def costs_told(study: Study, records: Mapping[Cell, RunRecord | None]) -> Iterator[str]:
    """What an arm's start cost: no budget counts it, and a reader should know it."""
    for arm in study.arms:
        name = foundation_of(study, arm)
        done = [record for cell, record in records.items() if cell.is_foundation and cell.arm == name and record]
        if name is not None and done:
            tokens, flops = (
                sum(getattr(record.progress, what) for record in done) / len(done) for what in ("tokens", "flops")
            )
            yield (
                f"{arm} starts from foundation {name}, whose {count(tokens)} tokens and {count(flops)} FLOPs for each "
                "seed are not counted in what was equal"
            )
