"""Every key of a composed configuration is checked, before anything heavy is imported.

What a group's choice may hold is what its `_target_` constructor takes, read from source. The values come back in
their own types: 1 where a number was meant is 1.0, 1e3 where a whole number was meant is 1000.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headtohead.config.compose.choices import Choice, choices, config_folders, groups
from headtohead.config.compose.replacements import REPLACED, file_of, is_choice
from headtohead.config.errors import ConfigurationError, nearest, one_of, show
from headtohead.config.schema.annotations import kind_of
from headtohead.config.schema.slots import Slot, may_name, slot_of
from headtohead.config.schema.source_code import arguments, find_target, may_be_made_when_imported, module_path
from headtohead.config.schema.value_kinds import (
    Either,
    Kind,
    ListOf,
    MappingOf,
    MismatchError,
    NullKind,
    PartKind,
    RecordKind,
    TextKind,
    WholeNumber,
)
from headtohead.ranges import Range

_NAME = TextKind(is_filled=True)
_OPTIONAL_NAME, _OPTIONAL_TEXT = Either((_NAME, NullKind())), Either((TextKind(), NullKind()))
ROOT_FIELDS: dict[str, Kind] = {
    "seed": WholeNumber(Range(0, 2**32 - 1)),
    "name": _OPTIONAL_NAME,
    "group": _NAME,
    "tags": ListOf(_NAME),
    "notes": _OPTIONAL_TEXT,
    "output_dir": _NAME,
    "init_from": _OPTIONAL_NAME,
    "resume_from": _OPTIONAL_NAME,
    "choices": MappingOf(_OPTIONAL_TEXT),
    REPLACED: MappingOf(_NAME),
}
NODES = (
    "task", "data", "augmentation", "model", "optimizer", "parametrisation", "schedule", "finetuning", "precision",
    "checkpointing", "trainer", "evaluation", "probe", "tracking",
)  # fmt: skip
ROOT_NODES = ("bench", "budget", "launcher")
"""Those that a root of its own adds: conf/bench.yaml, conf/match.yaml, conf/launch.yaml."""
REQUIRED_FIELDS = ("seed", "group", "output_dir")
_GUESSES = 5
_PACKAGE = "headtohead."
_HYDRA_KEYS = frozenset({"_target_", "_partial_"})


@dataclass(frozen=True)
class KnownKeys:
    """Known keys are the keys that one mapping of the configuration may hold."""

    owner: str
    kinds: Mapping[str, Kind]
    passed: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    examples: Mapping[str, str] = field(default_factory=dict)
    """The defaults that are numbers or lists of them, to show what is meant."""


def check(config: Mapping[str, object]) -> dict[str, Any]:
    """Return the configuration with its values in their own types; raises ConfigurationError."""
    return _Checker(config).checked()


def fields_of(group: str, node: Mapping[str, object]) -> KnownKeys | None:
    """Return what a node of this group may hold; None if its source does not say (`**kwargs`): then every key
    passes."""
    return _fields(node["_target_"], slot_of(group)) if "_target_" in node else None


def record_fields(target: str) -> KnownKeys | None:
    """Return what a mapping may hold that becomes a small dataclass."""
    return _fields(target, Slot(()))


@lru_cache(maxsize=2048)
def _fields(target: str, slot: Slot) -> KnownKeys | None:
    taken, passed = arguments(target), slot.passed
    if taken is None:
        return None
    kinds = {item.name: kind_of(item.module, item.annotation) for item in taken if item.name not in passed}
    kinds |= {name: Either((kinds[name], NullKind())) for name in slot.filled & kinds.keys()}
    given_by_others = passed | slot.filled
    required = frozenset(item.name for item in taken if item.default is None and item.name not in given_by_others)
    examples = {item.name: text for item in taken if (text := _example(item.default))}
    return KnownKeys(target.rpartition(".")[2], kinds, passed & {item.name for item in taken}, required, examples)


def _example(default: ast.expr | None) -> str:
    try:
        value = ast.literal_eval(default) if default is not None else None
    except ValueError:
        return ""
    return "" if isinstance(value, bool | str) or value is None else show(value)


def _passed(group: str, node: Mapping[str, Any]) -> str:
    """Say what the arguments are called that the model passes to a class of the user's own, which may have meant one of
    them."""
    is_own = not node.get("_target_", _PACKAGE).startswith(_PACKAGE)
    names = sorted(slot_of(group).passed) if is_own else ()
    return f"; what the model passes by itself is called {one_of(names)}" if names else ""


class _Checker:
    """One pass over a configuration; a method for each kind of place, each giving back what it read."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def checked(self) -> dict[str, Any]:
        for key in self.config:
            if key not in ROOT_FIELDS and key not in NODES + ROOT_NODES:
                known = [name for name in (*ROOT_FIELDS, *NODES) if name not in ("choices", REPLACED)]
                raise self._unknown("", key, known, "the run")
        missing = [key for key in (*NODES, *REQUIRED_FIELDS) if key not in self.config]
        if missing:
            raise ConfigurationError(
                f"{missing[0]} is missing: a run needs {', '.join((*NODES, *REQUIRED_FIELDS))}; take out ~{missing[0]}"
            )
        return {
            key: _value(key, value, ROOT_FIELDS[key]) if key in ROOT_FIELDS else self._node(key, key, value)
            for key, value in self.config.items()
        }

    def _node(self, path: str, group: str, node: Any) -> dict[str, Any]:
        if not isinstance(node, Mapping) or "_target_" not in node:
            raise ConfigurationError(
                f"{path}={show(node)} is refused: {path} is a group, and h2h list {group} shows its choices"
            )
        _check_target(path, group, node["_target_"])
        fields = fields_of(group, node)
        return dict(node) if fields is None else self._mapping(path, group, node, fields)

    def _mapping(self, path: str, group: str, node: Mapping[str, Any], fields: KnownKeys) -> dict[str, Any]:
        choice = (self.config.get("choices") or {}).get(group)
        is_own = choice is not None and _has_other_class(group, str(choice), node)
        owner = f"{group}={choice}" if choice and not is_own else fields.owner
        checked: dict[str, Any] = {}
        for key, value in node.items():
            if key in _HYDRA_KEYS:
                checked[key] = value
            elif key in fields.passed:
                raise ConfigurationError(_given_by_parent(path, group, key))
            elif key not in fields.kinds and is_own:
                raise ConfigurationError(
                    f"{path}.{key} is not an argument of {node['_target_']}, which stands in place of the class of "
                    f"{group}={choice}: remove it, ~{path}.{key}; it takes {one_of(sorted(fields.kinds))}"
                )
            elif key not in fields.kinds:
                raise self._unknown(path, key, list(fields.kinds), owner)
            else:
                example = fields.examples.get(key, "")
                checked[key] = self._field(f"{path}.{key}", f"{group}/{key}", value, fields.kinds[key], example)
        for key in sorted(fields.required - node.keys()):
            raise ConfigurationError(
                f"{path}.{key} is missing: {owner} has no default for it, so give {path}.{key}{_passed(group, node)}"
            )
        return checked

    def _field(self, path: str, group: str, value: Any, kind: Kind, example: str) -> Any:
        value = _value(path, value, kind, example)
        if isinstance(value, list):
            return [self._part(f"{path}.{index}", group, entry) for index, entry in enumerate(value)]
        if isinstance(value, Mapping) and "_target_" not in value and (record := _record_of(kind)) is not None:
            fields = record_fields(record.target)
            return value if fields is None else self._mapping(path, group, value, fields)
        if isinstance(value, Mapping) and "_target_" not in value:  # parts by name
            return {key: self._part(f"{path}.{key}", group, entry) for key, entry in value.items()}
        return self._part(path, group, value)

    def _part(self, path: str, group: str, value: Any) -> Any:
        return self._node(path, group, value) if isinstance(value, Mapping) and "_target_" in value else value

    def _unknown(self, path: str, key: str, known: list[str], owner: str) -> ConfigurationError:
        """Guesses the other choices that have the field, then the same name elsewhere, then the nearest name here; the
        nearest anywhere is a guess only where no group was named."""
        prefix = f"{path}." if path else ""
        refused = f"{prefix}{key} is not a field of {owner}"
        if groups_with_key := _choices_with(path.replace(".", "/"), key) if path else []:
            return ConfigurationError(f"{refused}: {path}={'|'.join(groups_with_key)} has it")
        legal = list(self._legal_paths())
        by_leaf = {name.rpartition(".")[2]: name for name in reversed(legal)}
        same = [name for name in legal if name.rpartition(".")[2] == key]
        guess = nearest(key, known)
        anywhere = None if path else nearest(key, by_leaf)
        if same or guess or anywhere:
            hint = " or ".join(same[:3]) or (f"{prefix}{guess}" if guess else by_leaf[anywhere or ""])
            return ConfigurationError(f"{refused}: did you mean {hint}?")
        return ConfigurationError(f"{refused}: its fields are {one_of(known)}")

    def _legal_paths(self) -> Iterator[str]:
        yield from ROOT_FIELDS
        for key in NODES + ROOT_NODES:
            yield from _legal_below(key, key, self.config.get(key))


def _legal_below(path: str, group: str, node: Any) -> Iterator[str]:
    if isinstance(node, Mapping) and (fields := fields_of(group, node)) is not None:
        for key in fields.kinds:
            yield f"{path}.{key}"
            yield from _legal_below(f"{path}.{key}", f"{group}/{key}", node.get(key))


def _choices_with(group: str, key: str) -> list[str]:
    """Return the choices of a group that spell the field out, else those of which the class has it."""
    if group not in groups():
        return []
    spelled: list[str] = []
    others: list[str] = []
    for choice in choices(group):
        taken = arguments(choice.target) if choice.target else None
        if taken is not None and key in {item.name for item in taken} - slot_of(group).passed:
            lines = choice.path.read_text(encoding="utf-8").splitlines()
            (spelled if any(line.startswith(f"{key}:") for line in lines) else others).append(choice.name)
    return spelled or others[:_GUESSES]


def _has_other_class(group: str, choice: str, node: Mapping[str, object]) -> bool:
    """Return whether a node was given a class of its own after the choice, whose fields are then another's."""
    folders = config_folders()
    file = file_of(group, choice, folders) if "_target_" in node and is_choice(group, choice, folders) else None
    return file is not None and Choice(group, choice, file).target != node["_target_"]


def _check_target(path: str, group: str, target: Any) -> None:
    refused = f"{path}._target_={show(target)} is refused"
    if not isinstance(target, str) or "." not in target:
        raise ConfigurationError(f"{refused}: it must name a class, package.module.Class")
    if not may_name(group, target):
        raise ConfigurationError(
            f"{refused}: {group} takes classes of {' or '.join(slot_of(group).packages)}, or yours"
        )
    module, _, name = target.rpartition(".")
    if may_be_made_when_imported(target):
        return
    if module_path(module) is None:
        raise ConfigurationError(f"{refused}: there is no module {module}; give one that Python finds (PYTHONPATH)")
    if find_target(target) is None:
        raise ConfigurationError(f"{refused}: {module} defines no {name}")


def _given_by_parent(path: str, group: str, key: str) -> str:
    filled_by = slot_of(group).filled_by
    instead = f"set model.{key} instead" if filled_by == "the model" else "leave it out"
    return f"{path}.{key} is refused: {filled_by} gives it; {instead}"


def _record_of(kind: Kind) -> RecordKind | None:
    kinds = kind.kinds if isinstance(kind, Either) else (kind,)
    return next((item for item in kinds if isinstance(item, RecordKind)), None)


def _value(path: str, value: Any, kind: Kind, example: str = "") -> Any:
    such_as = f", such as {example}" if example else ""
    try:
        value = kind.read(value)
    except MismatchError as mismatch:
        if isinstance(value, str) and _takes_part(kind):
            group = path.replace(".", "/")
            raise ConfigurationError(f"{path}={value} is refused: it is a group; write {group}={value}") from None
        raise ConfigurationError(f"{path}={show(value)} is refused: it must be {mismatch}{such_as}") from None
    return value


def _takes_part(kind: Kind) -> bool:
    return isinstance(kind, PartKind) or (
        isinstance(kind, Either) and any(isinstance(item, PartKind) for item in kind.kinds)
    )
