"""What was written down before the first run, kept with the runs: what is decided later is called exploratory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headtohead.building.content import deciding, run_id
from headtohead.files.reading import DamagedFile, read_object
from headtohead.files.writing import replace_text
from headtohead.studying.foundations import FIELD, foundation_of
from headtohead.studying.planning import Plan
from headtohead.studying.running import is_done
from headtohead.studying.study import Study
from headtohead.studying.tuning.tuning import Tuning
from headtohead.tracking.secrets import mask_secrets

_ADDED = ("seeds", "contrasts", "arms")
_LATER = ("seed_offsets", "allow_unlike", "budget", "tuned_by")
"""Fields that older registrations do not have."""
_ANOTHER = "put a copy of it back; without it, remove the file, and the report says what was not registered"
_BY_CONTENT = "it makes the arms and their baseline, and a hash of what each arm is stands in the registration"
_BESIDE = "it is reported beside the verdicts, and none rests on it"
UNREGISTERED: Mapping[str, str] = {
    "name": "a study of another name has a folder, and registrations, of its own",
    "question": "words",
    "hypothesis": "words",
    "expected": "it says which verdicts are reported as surprises, and changes none",
    "shares": "verdicts rest on runs of the whole budget",
    "scaling": _BESIDE,
    "base": _BY_CONTENT,
    "baseline": _BY_CONTENT,
    "lengths": _BY_CONTENT,
    "foundations": _BY_CONTENT,
    "ablation": _BY_CONTENT,
    "movable": _BY_CONTENT,
    "departures": "words about what stands in base",
}
"""Fields of a study that a registration does not hold by their names, with the reason."""


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
    seed_offsets: Mapping[str, int] | None = None
    """Those that are not 0. This field and those below are None in registrations that were written before they had it.
    """
    allow_unlike: tuple[str, ...] | None = None
    budget: str | None = None
    tuned_by: str | None = None
    """The metric that chooses among trials, and its direction."""

    @classmethod
    def of(cls, study: Study, arms: Mapping[str, str] | None = None) -> Registered:
        """Where looks are registered, so are all seeds up to the last of them."""
        tuning = study.tuning if isinstance(study.tuning, Tuning) else None
        derived: dict[str, Any] = {
            "tuning": None if tuning is None else tuning.words,
            "tuned_by": "nothing" if tuning is None else f"{tuning.metric}, {tuning.direction}",
            "arms": dict(arms or {}),
            "seed_offsets": {arm: offset for arm, offset in study.seed_offsets.items() if offset},
            "allow_unlike": tuple(sorted(study.allow_unlike)),
            "budget": "none" if study.budget is None else " ".join(study.budget.overrides),
        }
        named = [field.name for field in fields(cls) if field.name not in derived]
        design = cls(**{name: getattr(study, name) for name in named}, **derived)
        return replace(design, seeds=tuple(range(study.looks[-1]))) if study.looks else design

    def asks_the_same(self, other: Registered) -> bool:
        return not self.changed_in(other)

    def changed_in(self, other: Registered) -> list[str]:
        """Fields; seeds, contrasts and arms aside, which may be added one by one."""
        known = [field.name for field in fields(self) if field.name not in (*_ADDED, *_LATER)]
        known += [name for name in _LATER if getattr(self, name) is not None]
        return [name for name in known if getattr(self, name) != getattr(other, name)]

    def departures(self, other: Registered, contrast: tuple[str, str]) -> Iterator[str]:
        """Why a contrast of the other is none of these."""
        if changed := self.changed_in(other):
            yield f"{' and '.join(changed)} changed after registration"
        if contrast not in self.contrasts:
            yield "the contrast was added after registration"
        for arm in contrast:
            if arm in self.arms and arm in other.arms and self.arms[arm] != other.arms[arm]:
                yield f"{arm} changed after registration"


@dataclass(frozen=True)
class Written:
    """The file of one registration: the design, and for its readers when it was written and from which study."""

    file: str
    design: Registered
    time: str
    """ISO 8601, in UTC."""
    study: Mapping[str, Any] = field(default_factory=dict)
    """All fields of it; empty in old files."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """That of the baseline, as far as it decides results; empty in old files."""


def register(plan: Plan) -> None:
    """Once, when the first run is about to start; what was written then stays, and nothing is written once there are
    results to be seen."""
    file = _file(plan)
    if not file.exists() and not any(is_done(plan.run_folder(cell)) for cell in plan.cells):
        file.parent.mkdir(parents=True, exist_ok=True)
        told = {
            **asdict(asked_by(plan)),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "study": asdict(plan.study),
            "configuration": mask_secrets({**deciding(plan.drafts[plan.study.baseline]), "seed": None}),
        }
        replace_text(file, json.dumps(told, indent=2) + "\n")


def asked_by(plan: Plan) -> Registered:
    """What the study asks now."""
    return Registered.of(plan.study, {arm: _content(plan, arm) for arm in plan.study.arms})


def registered(plan: Plan) -> Registered | None:
    """None where nothing was."""
    file = _file(plan)
    return read_registration(file).design if file.is_file() else None


def registrations(plan: Plan) -> list[Written]:
    """Return all registrations of the study's folder in the order of their time."""
    files = _file(plan).parent.glob("*.json")
    return sorted((read_registration(file) for file in files), key=lambda written: (written.time, written.file))


def is_of(plan: Plan, written: Written) -> bool:
    """Say whether this is the registration of what the study asks now."""
    return written.file == _file(plan).name


def read_registration(file: Path) -> Written:
    """Read a registration of any age: old ones have no time but that of their file."""
    told = read_object(file, way_out=_ANOTHER)
    changed = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
    beside = {"time": told.pop("time", changed)} | {name: told.pop(name, {}) for name in ("study", "configuration")}
    try:
        lists = {
            name: tuple(told[name]) for name in ("seeds", "looks", "vary", "allow_unlike") if told.get(name) is not None
        }
        contrasts = tuple((arm, other) for arm, other in told["contrasts"])
        hash(
            (contrasts, *lists.values(), *beside["time"].split(), *told.get("arms", {}).items())
        )  # names and numbers alone
        return Written(file.name, Registered(**{**told, **lists, "contrasts": contrasts}), **beside)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedFile(file, "holds no registration of a study", _ANOTHER) from None


def _file(plan: Plan) -> Path:
    """By the baseline without its seed: arms and seeds may join a design, another baseline makes another."""
    return plan.folder / "registrations" / f"{_content(plan, plan.study.baseline)}.json"


def _content(plan: Plan, arm: str) -> str:
    """What the arm starts from is part of it."""
    foundation = foundation_of(plan.study, arm)
    start = {} if foundation is None else {FIELD: run_id({**plan.drafts[foundation], "seed": None})}
    return run_id({**plan.drafts[arm], **start, "seed": None})
