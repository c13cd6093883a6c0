"""A study from its YAML file and the overrides of its fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from headtohead.comparison.contrasts import SeedRounds
from headtohead.config.compose.choices import STUDY, choices, config_folders
from headtohead.config.compose.overrides import key_of
from headtohead.config.compose.replacements import refuse_unasked
from headtohead.config.errors import ConfigurationError, show, unknown
from headtohead.config.schema.value_kinds import MismatchError
from headtohead.files.safe_read import DamagedFile, read_yaml
from headtohead.studies.definition.ablation import MADE, with_its_arms
from headtohead.studies.definition.replaced_choices import lost_fields
from headtohead.studies.definition.study import BUDGETS, Study
from headtohead.studies.definition.study_fields import FIELDS, INSTEAD, KINDS, faults, taken

_MOST_SEEDS = 10_000
_SUFFIX = ".yaml"
EVERY_ARM = "*"
_BUDGET = "budget"
_REQUIRED = ("question", "hypothesis", "tuning", "arms", "seeds", "metric", "direction", "baseline")


def read_study(name: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> Study:
    """Return a study of conf/study or of a user's folder, or the one in a file that is named by its path; its own
    fields may be overridden, all else goes to every arm."""
    file = Path(name) if name.endswith(_SUFFIX) else _known_file(name, config_dir)
    name = file.stem
    try:
        written = read_yaml(file)
    except FileNotFoundError:
        raise ConfigurationError(f"{file} does not exist: give a study's file, or a name (h2h list study)") from None
    except DamagedFile as damage:
        raise ConfigurationError(str(damage)) from None
    own = [override for override in overrides if is_own_field(override)]
    study = study_from(name, with_own_fields(name, written, own) if isinstance(written, dict) else written)
    others = tuple(override for override in overrides if override not in own)
    for override in taken(others):
        raise ConfigurationError(f"{override} is refused, since the study sets it itself: {INSTEAD}")
    return with_user_changes(study, others, config_dir)


def _known_file(name: str, config_dir: str | Path | None) -> Path:
    known = {choice.name: choice.path for choice in choices(STUDY, config_dir)}
    if name not in known:
        raise ConfigurationError(unknown(f"{name} is not a study", name, list(known)))
    refuse_unasked(STUDY, name, config_folders(config_dir))
    return known[name]


def is_own_field(override: str) -> bool:
    """Return whether an override changes a field of the study, or a part of one, and not the runs of its arms."""
    return key_of(override).partition(".")[0] in FIELDS


def with_own_fields(name: str, written: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """Return the fields with these overrides: of one as a whole, tuning=none, or of its parts, tuning.trials=2 and
    tuning.space.optimizer.lr=[0.1,1]. Options of the budget need no name of it, budget.tolerance=0.01."""
    result = deepcopy(dict(written))
    for override in overrides:
        *parents, last = key_of(override).split(".", 2)
        if parents[:1] == [_BUDGET]:
            result[_BUDGET] = _budget_with_parts(result.get(_BUDGET))
        if parents == [_BUDGET] and last not in BUDGETS:
            parents = [_BUDGET, _only_budget(name, result, override)]
        within = result
        for parent in parents:
            inner = within.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise ConfigurationError(
                    f"{override} is refused: {parent} of study {name} is {show(inner)}, which has no parts; give it "
                    f"as a whole, '{parents[0]}=...'"
                )
            within = inner
        within[last] = _read_value(override)
    return result


def _budget_with_parts(written: object) -> object:
    """Return a budget that takes options, as it may also be written: by its name alone, or with none."""
    if written is None or isinstance(written, str):
        return {} if written is None else {written: {}}
    return {name: options or {} for name, options in written.items()} if isinstance(written, dict) else written


def _only_budget(name: str, written: Mapping[str, object], override: str) -> str:
    """Return the name of the study's budget, of which the override is an option."""
    budget = written.get(_BUDGET)
    if not isinstance(budget, dict) or len(budget) != 1:
        raise ConfigurationError(
            f"{override} is refused: study {name} has no budget of which it could be an option: name one, "
            f"{_BUDGET}.{BUDGETS[0]}.{override.removeprefix(f'{_BUDGET}.')}"
        )
    return str(next(iter(budget)))


def study_from(name: str, written: Any) -> Study:
    """Build a study from plain YAML values; unknown fields and names that do not exist are refused."""
    if not isinstance(written, dict):
        raise ConfigurationError(f"study {name} holds no fields: it needs {', '.join(_REQUIRED)}")
    for key in written:
        if key not in KINDS:
            raise ConfigurationError(unknown(f"{key} is not a field of study {name}", str(key), FIELDS))
    made = MADE if written.get("ablation") else ()
    missing = [key for key in _REQUIRED if key not in written and key not in made]
    if missing:
        raise ConfigurationError(f"study {name} has no {missing[0]}: it needs {', '.join(_REQUIRED)}")
    study = _moves_by_arm(
        Study(name=name, **_completed(name, {key: _read(name, key, value) for key, value in written.items()}))
    )
    if not study.contrasts:
        study = replace(study, contrasts=tuple((arm, study.baseline) for arm in study.arms if arm != study.baseline))
    for sentence in faults(study):
        raise ConfigurationError(f"study {name}: {sentence}")
    return study


def _moves_by_arm(study: Study) -> Study:
    """Give every arm but the baseline the moves that stand under "*", unless it has its own."""
    if EVERY_ARM not in study.movable:
        return study
    of_others = {arm: study.movable[EVERY_ARM] for arm in study.arms if arm != study.baseline}
    own = {arm: moves for arm, moves in study.movable.items() if arm != EVERY_ARM}
    return replace(study, movable={**of_others, **own})


def _completed(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A number of seeds becomes seeds, an ablation's arms join those that are written out."""
    seeds = values["seeds"]
    rounds = seeds if isinstance(seeds, SeedRounds) else None
    number = seeds.most if isinstance(seeds, SeedRounds) else seeds
    if isinstance(number, int) and number > _MOST_SEEDS:
        raise ConfigurationError(f"study {name}: seeds={show(number)} is refused: give {_MOST_SEEDS} at most")
    first = values.get("first_seed", 0)
    if first and not isinstance(number, int):
        raise ConfigurationError(
            f"study {name}: first_seed={show(first)} goes with a number of seeds, and seeds={show(number)} lists them: "
            f"give seeds={len(number)}"
        )
    listed = tuple(range(first, first + number)) if isinstance(number, int) else number
    filled = {**values, "rounds": rounds, "seeds": listed}
    if (ablation := values.get("ablation")) is None:
        return filled
    try:
        return with_its_arms(filled, ablation)
    except ConfigurationError as error:
        raise ConfigurationError(f"study {name}: {error}") from None


def _read(name: str, key: str, value: Any) -> Any:
    try:
        return _frozen(KINDS[key].read(value))
    except MismatchError as mismatch:
        raise ConfigurationError(f"study {name}: {key}={show(value)} is refused: it must be {mismatch}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"study {name}: {error}") from None


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


_ASKS = {
    "task", "data", "augmentation", "model", "optimizer", "parametrisation", "schedule", "finetuning", "precision",
    "trainer.max_steps", "trainer.max_epochs", "trainer.accumulate", "init_from",
}  # fmt: skip
"""The fields that say what a run does, and not where it is done or how it is watched."""


def with_user_changes(study: Study, overrides: Sequence[str], config_dir: str | Path | None = None) -> Study:
    """Return the study with these overrides in all its arms. A group that is chosen again takes the study's fields of
    the old choice with it where the new one has no such fields; a question that is no longer the file's has no
    expectations, and says so."""
    changes = [override for override in overrides if {key_of(override), re.split(r"[./]", key_of(override))[0]} & _ASKS]
    if not changes:
        return replace(study, base=(*study.base, *overrides))
    lost = lost_fields(study.base, overrides, config_dir)
    sentences = [f"run with {' '.join(changes)}, which is no longer the question of study {study.name}"]
    if study.expected:
        sentences[0] += ": the file's expectations no longer apply"
    if lost:
        sentences.append(f"dropped, since the new choice has no such field: {' '.join(lost)}")
    base = tuple(override for override in study.base if override not in lost)
    return replace(study, base=(*base, *overrides), expected={}, departures=tuple(sentences))
