"""The recorded conditions in which an arm differs from what it is compared with, beside what makes the arm."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headtohead.comparison.arms import COUNTED
from headtohead.comparison.comparability import seed_of
from headtohead.data.splits.leaks import LEAKS
from headtohead.files.safe_read import read_object
from headtohead.records.record import Comparability, Environment, RunRecord

CONDITIONS = ("config", "data", "budget", "comparability", "environment")
"""Fields of a record that say under what conditions a run was made."""
NAMES_AND_PATHS = ("name", "group", "tags", "notes", "output_dir", "resume_from", "tracking", "choices", "replaced")
"""Fields of a configuration that say how a run is called, where it goes and who is told: they make no other run."""
COSMETIC = ("progress_bar", "num_workers", "num_samples", "keep_checkpoints", "log_every")
"""Fields of its trainer that no result depends on."""
_COSMETIC_NAMES = frozenset(f"config.trainer.{name}" for name in COSMETIC)
_KERNELS = "environment.device.kernels"
_MODEL = "config.model."
_TARGET = "._target_"
_FOLLOWING = {
    "config.data": ("data.", "comparability."),
    "config.task": ("comparability.",),
    "config.precision": ("comparability.precision",),
    "config.trainer.train_rows": ("data.train_rows",),
    "config.trainer.validation_batches": ("comparability.evaluation", "data.validation_texts"),
    "config.trainer.threads": ("environment.device.threads",),
    "config.trainer.devices": ("environment.device.count",),
}
"""What of a record follows from a field of its configuration."""
_FEW = 3
"""Values of one arm that are shown."""


@dataclass(frozen=True)
class Condition:
    """One recorded condition, and what it was in either arm."""

    name: str
    """As the record has it: trainer.train_rows of the configuration, environment.python of the rest."""
    arm: str
    baseline: str


@dataclass(frozen=True)
class UnlikeConditions:
    """All conditions in which the runs of one contrast differ."""

    arm: str
    baseline: str
    conditions: tuple[Condition, ...]
    arm_is_known: bool
    """Whether it is known what makes the arms, so that it is not among these."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def conditions_of(record: RunRecord) -> dict[str, str]:
    """Return all conditions of a run by dotted name, as text."""
    parts = {
        "config": {key: value for key, value in record.config.items() if key not in (*NAMES_AND_PATHS, "seed")},
        "data": {key: value for key, value in record.data.items() if key != LEAKS},  # which remarks of their own name
        "budget": record.budget,
        "comparability": {} if record.comparability == Comparability() else asdict(record.comparability),
        "environment": {} if record.environment == Environment() else asdict(record.environment),
    }
    named = flat({name: parts[name] for name in CONDITIONS if parts[name]})
    return {name: value for name, value in named.items() if name not in _COSMETIC_NAMES}


def unlike_conditions(
    runs: Mapping[str, Sequence[RunRecord]],
    contrasts: Iterable[tuple[str, str]],
    made_by: Mapping[str, Sequence[str]] | None = None,
) -> list[UnlikeConditions]:
    """Return, for each contrast (arm, baseline) that has some, the conditions in which runs of one seed differ.

    Where no seed is shared, all runs are compared. `made_by` holds the overrides that make each arm; without it, the
    registration beside the runs says them.
    """
    differences = []
    for arm, baseline in contrasts:
        first, second = (_by_seed(runs.get(name, ())) for name in (arm, baseline))
        overrides = [_overrides(name, by, made_by) for name, by in ((arm, first), (baseline, second))]
        made = [key for own in overrides if own is not None for key in _made(own)]
        conditions = tuple(_unlike(first, second, made))
        if conditions:
            differences.append(UnlikeConditions(arm, baseline, conditions, arm_is_known=None not in overrides))
    return differences


def sentences_on(unlike: Iterable[UnlikeConditions]) -> list[str]:
    """Return one sentence for all contrasts that differ in the same conditions."""
    groups: dict[tuple[str, tuple[Condition, ...], bool], list[str]] = {}
    for one in unlike:
        groups.setdefault((one.baseline, one.conditions, one.arm_is_known), []).append(one.arm)
    return [
        f"{', '.join(arms)} and {baseline} differ in {'more than what makes them' if known else 'these conditions'}: "
        + ", ".join(f"{condition.name} ({condition.arm} against {condition.baseline})" for condition in conditions)
        for (baseline, conditions, known), arms in groups.items()
    ]


def _by_seed(records: Iterable[RunRecord]) -> dict[int, RunRecord]:
    return {seed_of(record): record for record in records if record.status in COUNTED}


def _unlike(
    first: Mapping[int, RunRecord], second: Mapping[int, RunRecord], made: Collection[str]
) -> Iterator[Condition]:
    shared = first.keys() & second.keys()
    arms = [[conditions_of(runs[seed]) for seed in sorted(shared or runs.keys())] for runs in (first, second)]
    pairs = list(zip(*arms, strict=True)) if shared else [(one, other) for one in arms[0] for other in arms[1]]
    differing = dict.fromkeys(name for one, other in pairs for name in _differing(one, other))
    of_other_models = any(name.startswith(_MODEL) for name in differing)
    conditions = [
        Condition(name, *(_shown(side, name) for side in arms))
        for name in differing
        if not _is_made(name, made) and not (of_other_models and name.startswith(_KERNELS))
    ]
    yield from _folded(conditions)


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[str]:
    """Yield names in the parts that both records have: that of another program may hold no configuration."""
    groups = [{name.partition(".")[0] for name in side} for side in (one, other)]
    for name in dict.fromkeys((*one, *other)):
        if name.partition(".")[0] in groups[0] & groups[1] and one.get(name, ABSENT) != other.get(name, ABSENT):
            yield name


def _shown(arm: Sequence[Mapping[str, str]], name: str) -> str:
    values = list(dict.fromkeys(one.get(name, ABSENT) for one in arm))
    return " or ".join(values[:_FEW]) + (f" or {len(values) - _FEW} others" if len(values) > _FEW else "")


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
            return dict(arms)
    return {}


def _made(overrides: Iterable[str]) -> Iterator[str]:
    """Yield the dotted names that overrides set, and those that follow from them."""
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key.endswith(_TARGET):
            yield f"environment.modules.{value.rpartition('.')[0]}"
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
