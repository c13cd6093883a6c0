"""A study as it is written down before it runs: the question, the arms, the seeds, and what will be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from headtohead.building.choices import STUDY, choices
from headtohead.building.errors import ConfigurationError, one_of, show, unknown
from headtohead.building.kinds import Either, Kind, ListOf, MappingOf, MismatchError, Null, Number, OneOf, Text, Whole
from headtohead.building.overrides import key_of

BUDGETS = ("equal_parameters", "equal_flops", "equal_tokens", "equal_state")
VERDICTS = ("better", "worse", "equivalent", "undecided")
SET_BY_THE_STUDY = ("seed", "name", "group", "resume_from")
_INSTEAD = "take it out (seeds=5 gives five seeds, seeds=[0,1] those two)"
_NAME = re.compile(r"\w[\w.-]*")
_OVERRIDES = ListOf(Text())


@dataclass(frozen=True)
class Study:
    """One YAML file of conf/study."""

    name: str
    question: str
    hypothesis: str
    tuning: str
    """How much tuning the numbers received, in words."""
    arms: Mapping[str, tuple[str, ...]]
    """What sets each contestant apart: overrides, applied after those of the base."""
    seeds: tuple[int, ...]
    metric: str
    """As records have it: test/loss."""
    direction: Literal["min", "max"]
    baseline: str
    base: tuple[str, ...] = ()
    contrasts: tuple[tuple[str, str], ...] = ()
    """Pairs (arm, what it is compared with); unless given, each arm with the baseline."""
    margin: float | None = None
    """Smaller differences do not matter: what lies within it may be called equivalent."""
    budget: str | None = None
    """What is equal in all arms; the plan refuses to differ by more than 2 %."""
    movable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The fields of an arm that may move to meet the budget."""
    expected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The verdicts that would be no surprise, by arm (against the baseline)."""
    seed_offsets: Mapping[str, int] = field(default_factory=dict)
    """Added to the seeds of an arm: makes A against A a comparison of different runs."""
    alpha: float = 0.05
    best: float | None = None
    """The best value there is: arms that reach it, or split into solved and unsolved, are compared by solve rates."""
    solved_at: float | None = None
    """The value from which on a run counts as solved: then arms are always compared by solve rates."""

    @property
    def stage_and_name(self) -> tuple[str, str]:
        stage, _, name = self.metric.partition("/")
        return stage, name


_KINDS: dict[str, Kind] = {
    "question": Text(),
    "hypothesis": Text(),
    "tuning": Text(),
    "arms": MappingOf(_OVERRIDES),
    "seeds": Either((Whole(), ListOf(Whole()))),
    "metric": Text(),
    "direction": OneOf(("min", "max")),
    "baseline": Text(),
    "base": _OVERRIDES,
    "contrasts": ListOf(ListOf(Text(), (Text(), Text()))),
    "margin": Either((Number(), Null())),
    "budget": Either((OneOf(BUDGETS), Null())),
    "movable": MappingOf(ListOf(Text())),
    "expected": MappingOf(ListOf(OneOf(VERDICTS))),
    "seed_offsets": MappingOf(Whole()),
    "alpha": Number(),
    "best": Either((Number(), Null())),
    "solved_at": Either((Number(), Null())),
}
FIELDS = tuple(_KINDS)
_REQUIRED = ("question", "hypothesis", "tuning", "arms", "seeds", "metric", "direction", "baseline")


def read_study(name: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> Study:
    """A study of conf/study or of a user's folder; its own fields may be overridden, all else goes to every arm."""
    import yaml

    known = {choice.name: choice.path for choice in choices(STUDY, config_dir)}
    if name not in known:
        raise ConfigurationError(unknown(f"{name} is no study", name, list(known)))
    try:
        written = yaml.safe_load(known[name].read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{known[name]} is no YAML: {' '.join(str(error).split())}") from None
    own = [override for override in overrides if key_of(override) in FIELDS]
    given = {key_of(override): _read_value(override) for override in own}
    study = study_from(name, {**written, **given} if isinstance(written, dict) else written)
    others = tuple(override for override in overrides if override not in own)
    for override in _taken(others):
        raise ConfigurationError(f"{override} is refused, since the study sets it itself: {_INSTEAD}")
    return replace(study, base=(*study.base, *others))


def study_from(name: str, written: Any) -> Study:
    """From plain YAML values; every field known, every name one that exists."""
    if not isinstance(written, dict):
        raise ConfigurationError(f"study {name} holds no fields: it needs {', '.join(_REQUIRED)}")
    for key in written:
        if key not in _KINDS:
            raise ConfigurationError(unknown(f"{key} is no field of study {name}", str(key), FIELDS))
    missing = [key for key in _REQUIRED if key not in written]
    if missing:
        raise ConfigurationError(f"study {name} has no {missing[0]}: it needs {', '.join(_REQUIRED)}")
    values = {key: _read(name, key, value) for key, value in written.items()}
    seeds = values["seeds"]
    values["seeds"] = tuple(range(seeds)) if isinstance(seeds, int) else seeds
    study = Study(name=name, **values)
    if not study.contrasts:
        study = replace(study, contrasts=tuple((arm, study.baseline) for arm in study.arms if arm != study.baseline))
    for sentence in _faults(study):
        raise ConfigurationError(f"study {name}: {sentence}")
    return study


def _read(name: str, key: str, value: Any) -> Any:
    try:
        return _frozen(_KINDS[key].read(value))
    except MismatchError as mismatch:
        raise ConfigurationError(f"study {name}: {key}={show(value)} is refused: it must be {mismatch}") from None


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(entry) for entry in value)
    return {key: _frozen(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _read_value(override: str) -> Any:
    import yaml

    text = override.partition("=")[2]
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigurationError(f"{override} could not be read: write lists as [1,2,3], in quotes") from None


def _faults(study: Study) -> Iterator[str]:
    arms = list(study.arms)
    if len(arms) < 2:
        yield f"arms={show(arms)} is no comparison: give two or more"
    for arm in arms:
        if not _NAME.fullmatch(arm):
            yield f"an arm is named {arm!r}: use letters, digits, dots, dashes and underscores"
    if len(set(study.seeds)) < len(study.seeds) or not study.seeds or min(study.seeds) < 0:
        yield f"seeds={show(study.seeds)} is refused: give a number of seeds, or different ones from 0 on, [0,1,2]"
    stage, metric = study.stage_and_name
    if stage not in ("test", "validation") or not metric:
        yield f"metric={study.metric} is refused: write test/NAME or validation/NAME, for example test/loss"
    if not 0 < study.alpha < 1:
        yield f"alpha={study.alpha:g} is refused: it is an error rate, such as 0.05"
    if study.margin is not None and study.margin <= 0:
        yield f"margin={study.margin:g} is refused: give a positive difference, or null"
    yield from _unknown_arms(study)
    yield from _taken_fields(study)


def _unknown_arms(study: Study) -> Iterator[str]:
    named = {"baseline": [study.baseline], "contrasts": [arm for pair in study.contrasts for arm in pair]}
    named |= {key: list(getattr(study, key)) for key in ("expected", "seed_offsets", "movable")}
    for key, names in named.items():
        for arm in names:
            if arm not in study.arms:
                yield unknown(f"{key} names {arm}, which is no arm", arm, list(study.arms))
    for arm, other in study.contrasts:
        if arm == other:
            yield f"the contrast [{arm}, {other}] compares an arm with itself: name two"
    compared = {arm for arm, other in study.contrasts if other == study.baseline}
    for arm in study.expected:
        if arm not in compared:
            yield f"expected names {arm}, which no contrast compares with the baseline: {one_of(compared)}"


def _taken_fields(study: Study) -> Iterator[str]:
    for place, overrides in (("base", study.base), *((f"arm {arm}", given) for arm, given in study.arms.items())):
        for override in _taken(overrides):
            yield f"{place} holds {override}, which the study sets itself: {_INSTEAD}"


def _taken(overrides: Sequence[str]) -> list[str]:
    return [override for override in overrides if key_of(override) in SET_BY_THE_STUDY]


assert {f.name for f in fields(Study)} == {"name", *_KINDS}
