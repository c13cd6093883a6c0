"""What was written down before the first run, kept with the runs: what is decided later is called exploratory."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from headtohead.studying.cells import run_id
from headtohead.studying.planning import Plan
from headtohead.studying.study import Study
from headtohead.studying.tuning.tuning import Tuning
from headtohead.tracking.files import replace_text


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
    tuning: str | None = None
    """Its design in words; None where it is told, not done."""

    @classmethod
    def of(cls, study: Study) -> Registered:
        """Where looks are registered, so are all seeds up to the last of them."""
        tuning = study.tuning.words if isinstance(study.tuning, Tuning) else None
        asked = {field.name: getattr(study, field.name) for field in fields(cls)}
        design = cls(**{**asked, "tuning": tuning})
        return replace(design, seeds=tuple(range(study.looks[-1]))) if study.looks else design

    def asks_the_same(self, other: Registered) -> bool:
        """Seeds and contrasts aside, which may be added one by one."""
        return replace(self, seeds=(), contrasts=()) == replace(other, seeds=(), contrasts=())


def register(plan: Plan) -> None:
    """Once, when the first run is about to start; what was written then stays."""
    file = _file(plan)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, json.dumps(asdict(Registered.of(plan.study)), indent=2) + "\n")


def registered(plan: Plan) -> Registered | None:
    """None where nothing was."""
    file = _file(plan)
    if not file.is_file():
        return None
    written: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    contrasts = tuple((arm, other) for arm, other in written["contrasts"])
    looks = tuple(written.get("looks", ()))
    return Registered(**{**written, "seeds": tuple(written["seeds"]), "looks": looks, "contrasts": contrasts})


def _file(plan: Plan) -> Path:
    """By the baseline without its seed: arms and seeds may join a design, another baseline makes another."""
    config = plan.drafts[plan.study.baseline]
    return plan.folder / "registrations" / f"{run_id({**config, 'seed': None})}.json"
