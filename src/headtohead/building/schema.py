"""Every key of a composed configuration is checked, before anything heavy is imported.

What a group's choice may hold is what its `_target_` constructor takes, read from source; settings are read from their
dataclasses. The values come back in their own types: 1 where a number was meant is 1.0, 1e3 where a whole number was
meant is 1000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headtohead.building.annotations import kind_of
from headtohead.building.errors import ConfigurationError, nearest, one_of, show
from headtohead.building.kinds import Either, Kind, ListOf, MappingOf, MismatchError, Null, Part, Record, Text, Whole
from headtohead.building.limits import LIMITS
from headtohead.building.slots import SETTINGS, Slot, may_name, slot_of
from headtohead.building.sources import arguments, find_target, module_path

_OPTIONAL_TEXT = Either((Text(), Null()))
ROOT_FIELDS: dict[str, Kind] = {
    "seed": Whole(),
    "name": _OPTIONAL_TEXT,
    "group": Text(),
    "tags": ListOf(Text()),
    "notes": _OPTIONAL_TEXT,
    "output_dir": Text(),
    "init_from": _OPTIONAL_TEXT,
    "resume_from": _OPTIONAL_TEXT,
    "choices": MappingOf(_OPTIONAL_TEXT),
}
NODES = ("task", "data", "model", "optimizer", "schedule", "precision", "checkpointing", "trainer", "tracking")
_HYDRA_KEYS = frozenset({"_target_", "_partial_"})


@dataclass(frozen=True)
class Fields:
    """What one mapping of the configuration may hold."""

    owner: str
    kinds: Mapping[str, Kind] | None
    """None where the source tells nothing: every key passes."""
    passed: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()


@dataclass
class _Walk:
    """One pass over a configuration; remembers every field that could have been meant, for "did you mean"."""

    config: Mapping[str, Any]
    legal: list[str] = field(default_factory=list)


def check(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its values in their own types; raises ConfigurationError."""
    walk = _Walk(config)
    walk.legal = list(_legal_paths(config))
    checked: dict[str, Any] = {}
    for key, value in config.items():
        if key in ROOT_FIELDS:
            checked[key] = _value(key, value, ROOT_FIELDS[key])
        elif key in NODES:
            checked[key] = _node(walk, key, key, value)
        else:
            raise _unknown_key(walk, "", key, [*ROOT_FIELDS, *NODES], "the run")
    missing = [key for key in (*NODES, "seed") if key not in config]
    if missing:
        raise ConfigurationError(f"{missing[0]} is missing: a run needs {', '.join(NODES)} and seed")
    return checked


def fields_of(group: str, node: Mapping[str, Any]) -> Fields:
    """What a node of this group may hold."""
    target = node.get("_target_") or SETTINGS.get(group)
    if target is None:
        return Fields(group, None)
    return _target_fields(target, slot_of(group) if "_target_" in node else Slot(()))


def _target_fields(target: str, slot: Slot) -> Fields:
    taken, passed = arguments(target), slot.passed
    owner = target.rpartition(".")[2]
    if taken is None:
        return Fields(owner, None)
    kinds = {item.name: kind_of(item.module, item.annotation) for item in taken if item.name not in passed}
    kinds |= {name: Either((kinds[name], Null())) for name in slot.filled & kinds.keys()}
    settled = passed | slot.filled
    required = frozenset(item.name for item in taken if item.default is None and item.name not in settled)
    return Fields(owner, kinds, passed & {item.name for item in taken}, required)


def _node(walk: _Walk, path: str, group: str, node: Any) -> Any:
    if not isinstance(node, Mapping):
        raise ConfigurationError(
            f"{path}={show(node)} is refused: {path} is a group; choose one of its choices (h2h list {group})"
        )
    if "_target_" in node:
        _check_target(path, group, node["_target_"])
    return _mapping(walk, path, group, node, fields_of(group, node))


def _check_target(path: str, group: str, target: Any) -> None:
    if not isinstance(target, str) or "." not in target:
        raise ConfigurationError(f"{path}._target_={show(target)} is refused: it must be package.module.Class")
    if not may_name(group, target):
        allowed = " or ".join(slot_of(group).packages)
        raise ConfigurationError(
            f"{path}._target_={target} is refused: {group} takes classes of {allowed}, or your own"
        )
    module = target.rpartition(".")[0]
    if module_path(module) is not None and find_target(target) is None and arguments(target) is None:
        raise ConfigurationError(
            f"{path}._target_={target} is refused: {module} defines no {target.rpartition('.')[2]}"
        )
    if target.startswith("headtohead.") and module_path(module) is None:
        raise ConfigurationError(f"{path}._target_={target} is refused: there is no module {module}")


def _mapping(walk: _Walk, path: str, group: str, node: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for key, value in node.items():
        if key in _HYDRA_KEYS or fields.kinds is None:
            checked[key] = value
        elif key in fields.passed:
            raise ConfigurationError(f"{path}.{key} is refused: the model passes it to every part; set model.{key}")
        elif key not in fields.kinds:
            raise _unknown_key(walk, path, key, list(fields.kinds), fields.owner)
        else:
            checked[key] = _field(walk, f"{path}.{key}", f"{group}/{key}", value, fields.kinds[key])
    for key in sorted(fields.required - node.keys()):
        raise ConfigurationError(
            f"{path}.{key} is missing: {fields.owner} has no default for it; write {path}.{key}=..."
        )
    return checked


def _field(walk: _Walk, path: str, group: str, value: Any, kind: Kind) -> Any:
    value = _value(path, value, kind)
    if isinstance(value, Mapping) and "_target_" in value:
        return _node(walk, path, group, value)
    record = _record_of(kind)
    if isinstance(value, Mapping) and record is not None:
        return _mapping(walk, path, group, value, _target_fields(record.target, Slot(())))
    if isinstance(value, list):
        return [
            _node(walk, f"{path}.{place}", group, entry)
            if isinstance(entry, Mapping) and "_target_" in entry
            else entry
            for place, entry in enumerate(value)
        ]
    return value


def _record_of(kind: Kind) -> Record | None:
    kinds = kind.kinds if isinstance(kind, Either) else (kind,)
    return next((item for item in kinds if isinstance(item, Record)), None)


def _value(path: str, value: Any, kind: Kind) -> Any:
    try:
        value = kind.read(value)
    except MismatchError as mismatch:
        if isinstance(value, str) and _takes_part(kind):
            group = path.replace(".", "/")
            raise ConfigurationError(f"{path}={value} is refused: it is a group; write {group}={value}") from None
        raise ConfigurationError(f"{path}={show(value)} is refused: it must be {mismatch}") from None
    limit = LIMITS.get(path.rpartition(".")[2])
    if limit is not None and isinstance(value, int | float) and not isinstance(value, bool) and not limit.holds(value):
        raise ConfigurationError(f"{path}={show(value)} is refused: it must be {limit.wants()}")
    return value


def _takes_part(kind: Kind) -> bool:
    return isinstance(kind, Part) or (isinstance(kind, Either) and any(isinstance(item, Part) for item in kind.kinds))


def _unknown_key(walk: _Walk, path: str, key: str, known: list[str], owner: str) -> ConfigurationError:
    full = f"{path}.{key}" if path else key
    prefix = f"{path}." if path else ""
    guess = nearest(key, known)
    if guess is not None:
        hint = f"did you mean {prefix}{guess}?"
    else:
        elsewhere = [legal for legal in walk.legal if legal.rpartition(".")[2] == key.rpartition(".")[2]]
        hint = f"did you mean {' or '.join(elsewhere[:3])}?" if elsewhere else f"its fields are {one_of(known)}"
    return ConfigurationError(f"{full} is not a field of {owner}: {hint}")


def _legal_paths(config: Mapping[str, Any]) -> Iterator[str]:
    yield from ROOT_FIELDS
    for key in NODES:
        if isinstance(config.get(key), Mapping):
            yield from _legal_below(key, key, config[key])


def _legal_below(path: str, group: str, node: Mapping[str, Any]) -> Iterator[str]:
    for key in fields_of(group, node).kinds or ():
        yield f"{path}.{key}"
        child = node.get(key)
        if isinstance(child, Mapping):
            yield from _legal_below(f"{path}.{key}", f"{group}/{key}", child)
