"""What was written down before the first run, kept with the runs: what is decided later is called exploratory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headtohead.studying.cells import run_id
from headtohead.studying.foundations import FIELD, foundation_of
from headtohead.studying.planning import Plan
from headtohead.studying.running import is_done
from headtohead.studying.study import Study
from headtohead.studying.tuning.tuning import Tuning
from headtohead.tracking.files import replace_text

_ADDED = ("seeds", "contrasts", "arms")


@dataclass(frozen=True)
class Registered:
    """A design: what will be compared, by what, and over how many seeds."""

    seeds: tuple[int, ...]
    metric: str
    direction: str
    margin: float | None
    alpha: float
    best: float | None
    solved_at: float | None
    contrasts: tuple[tuple[str, str], ...]
    looks: tuple[int, ...] = ()
    vary: tuple[str, ...] = ()
    tuning: str | None = None
    """Its design in words; None where it is told, not done."""
    arms: Mapping[str, str] = field(default_factory=dict)
    """By name a hash of what each is, its budget counted in and its seed left out; not all of them in old ones."""

    @classmethod
    def of(cls, study: Study, arms: Mapping[str, str] | None = None) -> Registered:
        """Where looks are registered, so are all seeds up to the last of them."""
        tuning = study.tuning.words if isinstance(study.tuning, Tuning) else None
        asked = {field.name: getattr(study, field.name) for field in fields(cls)}
        design = cls(**{**asked, "tuning": tuning, "arms": dict(arms or {})})
        return replace(design, seeds=tuple(range(study.looks[-1]))) if study.looks else design

    def asks_the_same(self, other: Registered) -> bool:
        return not self.changed_in(other)

    def changed_in(self, other: Registered) -> list[str]:
        """Fields; seeds, contrasts and arms aside, which may be added one by one."""
        asked = [field.name for field in fields(self) if field.name not in _ADDED]
        return [name for name in asked if getattr(self, name) != getattr(other, name)]

    def departures(self, other: Registered, contrast: tuple[str, str]) -> Iterator[str]:
        """Why a contrast of the other is none of these."""
        if changed := self.changed_in(other):
            yield f"{' and '.join(changed)} changed after registration"
        if contrast not in self.contrasts:
            yield "the contrast was added after registration"
        for arm in contrast:
            if arm in self.arms and arm in other.arms and self.arms[arm] != other.arms[arm]:
                yield f"{arm} changed after registration"


def register(plan: Plan) -> None:
    """Once, when the first run is about to start; what was written then stays, and nothing is written once there are
    results to be seen."""
    file = _file(plan)
    if not file.exists() and not any(is_done(plan.run_folder(cell)) for cell in plan.cells):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, json.dumps(asdict(asked_by(plan)), indent=2) + "\n")


def asked_by(plan: Plan) -> Registered:
    """What the study asks now."""
    return Registered.of(plan.study, {arm: _content(plan, arm) for arm in plan.study.arms})


def registered(plan: Plan) -> Registered | None:
    """None where nothing was."""
    file = _file(plan)
    if not file.is_file():
        return None
    written: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    contrasts = tuple((arm, other) for arm, other in written["contrasts"])
    looks = tuple(written.get("looks", ()))
    read = {"seeds": tuple(written["seeds"]), "looks": looks, "contrasts": contrasts}
    return Registered(**{**written, **read, "vary": tuple(written.get("vary", ()))})


def _file(plan: Plan) -> Path:
    """By the baseline without its seed: arms and seeds may join a design, another baseline makes another."""
    return plan.folder / "registrations" / f"{_content(plan, plan.study.baseline)}.json"


def _content(plan: Plan, arm: str) -> str:
    """What the arm starts from is part of it."""
    foundation = foundation_of(plan.study, arm)
    start = {} if foundation is None else {FIELD: run_id({**plan.drafts[foundation], "seed": None})}
    return run_id({**plan.drafts[arm], **start, "seed": None})
