"""Save the design with the runs before the first of them, since what is decided later is called exploratory; and report
the registrations of a study's folder: when each was made, how it differs from the one before, and what was rewritten
since."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headtohead.comparison.conditions import ABSENT, flat
from headtohead.comparison.contrasts import SeedRounds
from headtohead.comparison.planned_runs import PLANNED_RUNS
from headtohead.comparison.verdicts.seed_evidence import evidence_words
from headtohead.config.run_id import deciding, run_id
from headtohead.execution.monitor import clear_failed
from headtohead.execution.single_run import is_done
from headtohead.execution.tuning import Tuning
from headtohead.files.atomic_write import remove_unfinished, replace_text
from headtohead.files.safe_read import DamagedFile, read_object
from headtohead.records.secrets import mask_secrets
from headtohead.studies.definition.study import FIELD, Study, foundation_of
from headtohead.studies.planning.study_plan import StudyPlan

_ABANDONED_SECONDS = 3600.0
"""The age from which on an unfinished file is one that a killed process left."""
_ADDED = ("seeds", "contrasts", "arms")
_ANOTHER = "restore it from a copy; or remove the file, and the report says what was not registered"
_BY_CONTENT = "it makes the arms and their baseline, and a hash of what each arm is stands in the registration"
_BESIDE = "it is reported beside the verdicts, none of which rests on it"
UNREGISTERED: Mapping[str, str] = {
    "name": "a study of another name has a folder, and registrations, of its own",
    "question": "words",
    "hypothesis": "words",
    "expected": "it says which verdicts are reported as surprises, and changes none",
    "first_seed": "the seeds are registered themselves",
    "shares": "verdicts rest on runs of the whole budget",
    "scaling": _BESIDE,
    "base": _BY_CONTENT,
    "baseline": _BY_CONTENT,
    "lengths": _BY_CONTENT,
    "foundations": _BY_CONTENT,
    "ablation": _BY_CONTENT,
    "movable": _BY_CONTENT,
    "departures": "words about what base sets",
}
"""Fields of a study that a registration does not hold by their names, with the reason."""


@dataclass(frozen=True)
class RegisteredDesign:
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
    """Its design in words; None where it is in words, not done."""
    arms: Mapping[str, str] = field(default_factory=dict)
    """The hash of what each arm is, by name, its budget counted in and its seed left out."""
    seed_offsets: Mapping[str, int] = field(default_factory=dict)
    """Those that are not 0."""
    allow_unlike: tuple[str, ...] = ()
    budget: str = "none"
    rounds: SeedRounds | None = None
    evidence: str | None = None
    """The evidence that is looked at after every round."""
    tuned_by: str = "nothing"
    """The metric that chooses among trials, and its direction."""

    @classmethod
    def of(cls, study: Study, arms: Mapping[str, str] | None = None) -> RegisteredDesign:
        """Build the design of a study; registered looks include all seeds up to the last of them."""
        tuning = study.tuning if isinstance(study.tuning, Tuning) else None
        derived: dict[str, Any] = {
            "tuning": None if tuning is None else tuning.words,
            "tuned_by": "nothing" if tuning is None else f"{tuning.metric}, {tuning.direction}",
            "arms": dict(arms or {}),
            "seed_offsets": {arm: offset for arm, offset in study.seed_offsets.items() if offset},
            "allow_unlike": tuple(sorted(study.allow_unlike)),
            "evidence": None if study.rounds is None else evidence_words(study.solved_at, paired=study.is_paired),
            "budget": "none" if study.budget is None else " ".join(study.budget.overrides),
        }
        named = [field.name for field in fields(cls) if field.name not in derived]
        design = cls(**{name: getattr(study, name) for name in named}, **derived)
        first = study.first_seed
        return replace(design, seeds=tuple(range(first, first + study.looks[-1]))) if study.looks else design

    def changed_in(self, other: RegisteredDesign) -> list[str]:
        """Fields; seeds, contrasts and arms aside, which may be added one by one."""
        known = [field.name for field in fields(self) if field.name not in _ADDED]
        return [name for name in known if getattr(self, name) != getattr(other, name)]

    def departures(self, other: RegisteredDesign, contrast: tuple[str, str]) -> Iterator[str]:
        """Return why a contrast of the other design is none of these."""
        if changed := self.changed_in(other):
            yield f"{' and '.join(changed)} changed after registration"
        if contrast not in self.contrasts:
            yield "the contrast was added after registration"
        for arm in contrast:
            if arm in self.arms and arm in other.arms and self.arms[arm] != other.arms[arm]:
                yield f"{arm} changed after registration"


@dataclass(frozen=True)
class SavedRegistration:
    """The file of one registration: the design, and for its readers when it was written and from which study."""

    file: str
    design: RegisteredDesign
    time: str
    """ISO 8601, in UTC."""
    study: Mapping[str, Any]
    """All fields of it."""
    configuration: Mapping[str, object]
    """That of the baseline, as far as it decides results."""


def register(plan: StudyPlan) -> None:
    """Once, when the first run is about to start; what was written then stays, and nothing is written once there are
    results to be seen."""
    file = _file(plan)
    if not file.exists() and not any(is_done(plan.run_folder(run)) for run in plan.runs):
        file.parent.mkdir(parents=True, exist_ok=True)
        data = {
            **asdict(design_of(plan)),
            "time": datetime.now(UTC).isoformat(timespec="microseconds"),
            "study": asdict(plan.study),
            "configuration": mask_secrets({**deciding(plan.drafts[plan.study.baseline]), "seed": None}),
        }
        replace_text(file, json.dumps(data, indent=2) + "\n")


def prepare(plan: StudyPlan, *, retry: bool) -> None:
    """Register the design before the first worker starts, and forget failed runs on request."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    remove_unfinished(plan.folder, older_than=_ABANDONED_SECONDS)
    register(plan)
    if retry:
        clear_failed(plan, plan.runs)


def with_listed_runs(plan: StudyPlan, started: datetime) -> StudyPlan:
    """Return the plan, its runs listed for those who look on; where more may follow, with the time when the study was
    started. A list that says the same stays."""
    since = started.isoformat(timespec="seconds") if plan.is_open else None
    planned = {"registration": _file(plan).name, "since": since, "runs": [run.id for run in plan.runs]}
    text, file = json.dumps(planned, indent=2) + "\n", plan.folder / PLANNED_RUNS
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        replace_text(file, text)
    return plan


def design_of(plan: StudyPlan) -> RegisteredDesign:
    """Return the design that the study has now."""
    return RegisteredDesign.of(plan.study, {arm: _content(plan, arm) for arm in plan.study.arms})


def registered(plan: StudyPlan) -> RegisteredDesign | None:
    """Return None where nothing was."""
    file = _file(plan)
    return read_registration(file).design if file.is_file() else None


def registrations(plan: StudyPlan) -> list[SavedRegistration]:
    """Return all registrations of the study's folder in the order of their time."""
    files = _file(plan).parent.glob("*.json")
    return sorted((read_registration(file) for file in files), key=lambda written: (written.time, written.file))


def is_of(plan: StudyPlan, written: SavedRegistration) -> bool:
    """Say whether this is the registration of what the study asks now."""
    return written.file == _file(plan).name


def read_registration(file: Path) -> SavedRegistration:
    """Read a registration; raises DamagedFile where the file holds none."""
    data = read_object(file, way_out=_ANOTHER)
    try:
        beside = {name: data.pop(name) for name in ("time", "study", "configuration")}
        lists = {name: tuple(data[name]) for name in ("seeds", "looks", "vary", "allow_unlike")}
        contrasts = tuple((arm, other) for arm, other in data["contrasts"])
        rounds = None if data.get("rounds") is None else SeedRounds(**data["rounds"])
        hash(
            (contrasts, *lists.values(), *beside["time"].split(), *data.get("arms", {}).items())
        )  # names and numbers alone
        return SavedRegistration(
            file.name, RegisteredDesign(**{**data, **lists, "contrasts": contrasts, "rounds": rounds}), **beside
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedFile(file, "is not a registration of a study", _ANOTHER) from None


def _file(plan: StudyPlan) -> Path:
    """Return the file for the baseline without its seed: arms and seeds may join a design, another baseline makes
    another."""
    return plan.folder / "registrations" / f"{_content(plan, plan.study.baseline)}.json"


def _content(plan: StudyPlan, arm: str) -> str:
    """Return the hash of the arm's content, including what it starts from."""
    foundation = foundation_of(plan.study, arm)
    start = {} if foundation is None else {FIELD: run_id({**plan.drafts[foundation], "seed": None})}
    return run_id({**plan.drafts[arm], **start, "seed": None})


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


def _rewritten(then: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    past, present = _plain(then), _plain(now)
    for name in _REWRITTEN:
        if name in past and past[name] != present[name]:
            yield _change(name, past[name], present[name])


def _plain(study: Mapping[str, object]) -> dict[str, Any]:
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
