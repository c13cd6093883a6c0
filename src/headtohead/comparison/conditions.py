"""The recorded conditions in which an arm differs from what it is compared with, beside what makes the arm."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headtohead.comparison.comparability import seed_of
from headtohead.data.splits.leaks import LEAKS
from headtohead.data.splits.left_out_rows import LEFT_OUT
from headtohead.files.safe_read import read_object
from headtohead.records.record import COUNTED, Comparability, Environment, RunRecord

CONDITIONS = ("config", "data", "budget", "comparability", "environment")
"""Fields of a record that say under what conditions a run was made."""
NAMES_AND_PATHS = ("name", "group", "tags", "notes", "output_dir", "resume_from", "tracking", "choices", "replaced")
"""Fields of a configuration that say how a run is called, where it goes and who is notified: they make no other run."""
COSMETIC = ("progress_bar", "num_workers", "num_samples", "keep_checkpoints", "log_every")
"""Fields of its trainer that no result depends on."""
_COSMETIC_NAMES = frozenset(f"config.trainer.{name}" for name in COSMETIC)
_KERNELS = "environment.device.kernels"
_MODEL = "config.model."
_MODULES = "environment.modules"
_FOLLOWING = {
    "config.data": ("data.", "comparability."),
    "config.task": ("comparability.",),
    "config.precision": ("comparability.precision",),
    **{
        f"config.model.{side}{pattern}": (f"config.model.{parts}",)
        for side in ("", "encoder.", "decoder.")
        for pattern, parts in (("pattern", "mixers"), ("feedforward_pattern", "feedforwards"))
    },
    "config.model.size": (
        *(f"config.model.{name}" for name in ("d_model", "num_layers", "num_heads")),
        *(f"config.model.feedforward.{name}" for name in ("multiple", "two_thirds")),
    ),
    "config.trainer.max_epochs": ("config.trainer.max_steps",),
    "config.trainer.batch_tokens": ("config.data.batch_size", "config.trainer.accumulate"),
    "config.trainer.train_rows": ("data.train_rows",),
    "config.trainer.validation_batches": ("comparability.evaluation", "data.validation_texts"),
    "config.trainer.threads": ("environment.device.threads",),
    "config.trainer.devices": ("environment.device.count",),
}
"""The fields of a record that follow from a field of its configuration."""
_FEW = 3
"""Values of one arm that are shown."""


@dataclass(frozen=True)
class Condition:
    """One recorded condition, and what it was in either arm."""

    name: str
    """The name as the record has it: trainer.train_rows of the configuration, environment.python of the rest."""
    arm: str
    baseline: str


@dataclass(frozen=True)
class ConditionMismatch:
    """All conditions in which the runs of one contrast differ."""

    arm: str
    baseline: str
    conditions: tuple[Condition, ...]
    arm_is_known: bool
    """Whether it is known what makes the arms, so that it is not among these."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Conditions:
    """The conditions of runs in parts, as text by dotted names. Records that were read together share the parts in
    which they agree: each is written out once, and parts that are one object need no look at what is in them."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, int], tuple[Any, dict[str, str]]] = {}
        self._runs: dict[int, tuple[RunRecord, dict[str, dict[str, str]]]] = {}

    def of(self, record: RunRecord) -> dict[str, dict[str, str]]:
        """Return all conditions of a run by part: config.model, environment."""
        known = self._runs.get(id(record))
        if known is None:
            known = self._runs[id(record)] = record, self._written_parts(record)
        return known[1]

    def _written_parts(self, record: RunRecord) -> dict[str, dict[str, str]]:
        parts = {
            f"config.{key}": value for key, value in record.config.items() if key not in (*NAMES_AND_PATHS, "seed")
        }
        parts |= {name: getattr(record, name) for name in CONDITIONS if name != "config"}
        written = {name: self._part(name, value) for name, value in parts.items()}
        return {name: values for name, values in written.items() if values}

    def _part(self, name: str, value: Any) -> dict[str, str]:
        # The object is held, so that its number stays its own.
        known = self._written.get((name, id(value)))
        if known is None:
            known = self._written[name, id(value)] = value, _written_out(name, value)
        return known[1]


def _written_out(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping | Comparability | Environment):
        return {name: str(value)}
    if isinstance(value, Comparability | Environment):
        return {} if value == type(value)() else flat({name: asdict(value)})
    if name == "data":
        value = {key: own for key, own in value.items() if key not in (LEAKS, LEFT_OUT)}  # which own remarks name
    named = flat(value, name) if value else ({name: str(value)} if name.startswith("config.") else {})
    return {one: text for one, text in named.items() if one not in _COSMETIC_NAMES}


def unlike_conditions(
    runs: Mapping[str, Sequence[RunRecord]],
    contrasts: Iterable[tuple[str, str]],
    made_by: Mapping[str, Sequence[str]] | None = None,
) -> list[ConditionMismatch]:
    """Return, for each contrast (arm, baseline) that has some, the conditions in which runs of one seed differ.

    Where no seed is shared, all runs are compared. `made_by` holds the overrides that make each arm; without it, the
    registration beside the runs says them.
    """
    differences, written = [], _Conditions()
    for arm, baseline in contrasts:
        first, second = (_by_seed(runs.get(name, ())) for name in (arm, baseline))
        overrides = [_overrides(name, by, made_by) for name, by in ((arm, first), (baseline, second))]
        made = [key for own in overrides if own is not None for key in _made(own)]
        conditions = tuple(_unlike(first, second, made, written))
        if conditions:
            differences.append(ConditionMismatch(arm, baseline, conditions, arm_is_known=None not in overrides))
    return differences


def sentences_on(unlike: Iterable[ConditionMismatch]) -> list[str]:
    """Return one sentence for all contrasts that differ in the same conditions, each named once: a field of data is
    recorded as it was chosen and as it was found."""
    groups: dict[tuple[str, tuple[Condition, ...], bool], list[str]] = {}
    for one in unlike:
        groups.setdefault((one.baseline, one.conditions, one.arm_is_known), []).append(one.arm)
    return [
        f"{', '.join(arms)} and {baseline} differ in {'more than what makes them' if known else 'these conditions'}: "
        + ", ".join({each.name: _in_words(each) for each in reversed(conditions)}[name] for name in _names(conditions))
        for (baseline, conditions, known), arms in groups.items()
    ]


def _names(conditions: Iterable[Condition]) -> list[str]:
    return list(dict.fromkeys(each.name for each in conditions))


_HASHES = {
    "comparability.data": "the data as it was cut into rows",
    "comparability.tokenizer": "the tokenizer",
    "comparability.evaluation": "the rows of the evaluation",
    "comparability.texts": "the texts of the evaluation",
}
"""Words for hashes of a record, which nobody reads."""
_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")
"""A commit, and the part of it by which people name it."""


def _in_words(condition: Condition) -> str:
    if condition.name in _HASHES:
        return _HASHES[condition.name]
    return _COMMIT.sub(r"\1", f"{condition.name} ({condition.arm} against {condition.baseline})")


def _by_seed(records: Iterable[RunRecord]) -> dict[int, RunRecord]:
    return {seed_of(record): record for record in records if record.status in COUNTED}


def _unlike(
    first: Mapping[int, RunRecord], second: Mapping[int, RunRecord], made: Collection[str], written: _Conditions
) -> Iterator[Condition]:
    shared = first.keys() & second.keys()
    arms = [[written.of(runs[seed]) for seed in sorted(shared or runs.keys())] for runs in (first, second)]
    differing: dict[str, str] = {}
    for one, other in zip(*arms, strict=True) if shared else _all_pairs(*arms):
        differing.update(_differing(one, other))
    of_other_models = any(name.startswith(_MODEL) for name in differing)
    conditions = [
        Condition(name, *(_shown(side, part, name) for side in arms))
        for name, part in differing.items()
        if not _is_made(name, made) and not (of_other_models and name.startswith(_KERNELS))
    ]
    yield from _folded([each for each in conditions if not _has_own_module(each)])


def _has_own_module(condition: Condition) -> bool:
    """Return whether it is one version of a module of the user's that one arm alone names; its class makes the arm, or
    is a condition by itself."""
    sides = {condition.arm, condition.baseline}
    return condition.name.startswith(_MODULES) and ABSENT in sides and not any(_OR in side for side in sides)


_Parts = Mapping[str, Mapping[str, str]]


def _all_pairs(first: Sequence[_Parts], second: Sequence[_Parts]) -> Iterator[tuple[_Parts, _Parts]]:
    """Yield pairs that differ in all that any pair of runs differs in: the first of each arm with all of the other. Two
    that differ cannot both be like these two, which are a pair themselves; but records with other parts need a look
    at each pair."""
    if len({frozenset(_groups(parts)) for parts in (*first, *second)}) > 1:
        yield from ((one, other) for one in first for other in second)
    elif first and second:
        yield from ((first[0], other) for other in second)
        yield from ((one, second[0]) for one in first)


def _groups(parts: _Parts) -> set[str]:
    return {name.partition(".")[0] for name in parts}


_NOTHING: Mapping[str, str] = {}


def _differing(one: _Parts, other: _Parts) -> Iterator[tuple[str, str]]:
    """Yield names with their part, of what both records have: that of another program may hold no configuration."""
    unlike = [part for part in dict.fromkeys((*one, *other)) if one.get(part, _NOTHING) != other.get(part, _NOTHING)]
    groups = _groups(one) & _groups(other) if unlike else set()
    for side in (one, other):
        for part in unlike:
            first, second = one.get(part, _NOTHING), other.get(part, _NOTHING)
            if part.partition(".")[0] in groups:
                names = (name for name in side.get(part, ()) if first.get(name, ABSENT) != second.get(name, ABSENT))
                yield from ((name, part) for name in names)


_OR = " or "


def _shown(arm: Sequence[_Parts], part: str, name: str) -> str:
    values = list(dict.fromkeys(one.get(part, _NOTHING).get(name, ABSENT) for one in arm))
    return _OR.join(values[:_FEW]) + (f" or {len(values) - _FEW} others" if len(values) > _FEW else "")


def _folded(conditions: Sequence[Condition]) -> Iterator[Condition]:
    """Yield the class alone where another one was built, without the options that it was built with."""
    target = "._target_"
    others = [one.name.removesuffix(target) for one in conditions if one.name.endswith(target)]
    for one in conditions:
        node = one.name.removesuffix(target)
        if any(one.name.startswith(f"{other}.") and node != other for other in others):
            continue
        sides = [side.rpartition(".")[2] if node != one.name else side for side in (one.arm, one.baseline)]
        yield Condition(node.removeprefix("config."), *sides)


def _overrides(
    arm: str, runs: Mapping[int, RunRecord], made_by: Mapping[str, Sequence[str]] | None
) -> Sequence[str] | None:
    """Return the overrides that make the arm; None where nobody says them."""
    if made_by is not None:
        return made_by.get(arm)
    folder = next((record.path for record in runs.values() if record.path is not None), None)
    return None if folder is None else _registered_arms(folder).get(arm)


def _registered_arms(run: Path) -> Mapping[str, Sequence[str]]:
    """Return the arms of the run's study, as registered beside its runs."""
    for file in sorted((run.parent.parent / "registrations").glob("*.json")):
        study = read_object(file).get("study")
        if isinstance(study, Mapping) and isinstance(arms := study.get("arms"), Mapping) and arms:
            return {name: overrides for name, overrides in arms.items() if _are_texts(overrides)}
    return {}


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _made(overrides: Iterable[str]) -> Iterator[str]:
    """Yield the dotted names that overrides set, and those that follow from them."""
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0]
        group, at, package = key.partition("@")
        name = f"config.{package if at else group.replace('/', '.')}"
        if name == "config.experiment":
            yield "config"
            continue
        yield name
        for field, following in _FOLLOWING.items():
            if name == field or name.startswith(f"{field}."):
                yield from (one.rstrip(".") for one in following)


def _is_made(name: str, made: Collection[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in made)


ABSENT = "(not there)"


def flat(config: Any, above: str = "", *, without: Collection[str] = ()) -> dict[str, str]:
    """Return each value as text, under its dotted name; `without` names fields of the first level that are left out."""
    if isinstance(config, Mapping) and config:
        parts = (
            flat(value, f"{above}.{key}" if above else str(key))
            for key, value in config.items()
            if above or key not in without
        )
        return {key: value for part in parts for key, value in part.items()}
    return {above: str(config)} if above else {}
