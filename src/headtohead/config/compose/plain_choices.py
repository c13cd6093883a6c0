"""Choices that are a file of fields and nothing more: they replace a node of a composition, without Hydra's help.

Hydra takes a tenth of a second to compose a run, and a plan of a thousand arms composes a thousand of them. A choice
whose file names no other groups changes one node alone; it is put in the place of the node that was composed, provided
that this is still the file of the choice before it, which nothing else has written into.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headtohead.config.compose.replacements import file_of, version_of
from headtohead.config.run_config import Node
from headtohead.config.schema.source_code import arguments

if TYPE_CHECKING:
    from omegaconf import DictConfig


_OVERRIDE = re.compile(r"(?P<group>[\w/]+)(?:@(?P<package>[\w.]+))?=(?P<choice>[\w.-]+)")
_SELF = "_self_"
_HEADER = "@package"


class PlainChoice(NamedTuple):
    """`group@package=choice`, of which the package follows from the group where it is not written."""

    key: str
    """The key as Hydra lists it among the choices: model/norm, or model/norm@model.encoder.norm."""
    group: str
    package: str
    choice: str


def plain_choices(overrides: Iterable[str], folders: tuple[Path, ...], state: Hashable) -> dict[str, PlainChoice]:
    """Return the overrides that are such choices, by their text; a group that is chosen twice is left to Hydra."""
    choices = {}
    for override in overrides:
        if match := _OVERRIDE.fullmatch(override):
            group, package = match["group"], match["package"]
            key = f"{group}@{package}" if package else group
            choices[override] = PlainChoice(key, group, package or group.replace("/", "."), match["choice"])
    keys = [choice.key for choice in choices.values()]
    return {
        override: one
        for override, one in choices.items()
        if keys.count(one.key) == 1 and _node(one.group, one.choice, folders, state) is not None
    }


def replaced(
    composed: DictConfig,
    before: Mapping[str, str],
    chosen: Iterable[PlainChoice],
    folders: tuple[Path, ...],
    state: Hashable,
) -> DictConfig | None:
    """Return a copy in which these choices are made instead of those `before`; None where only Hydra can tell.

    `state` tells the files of one composition from those of another.
    """
    from omegaconf import OmegaConf

    copy = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    for one in chosen:
        old = before.get(one.key)
        if old is None:
            return None
        was, now = (_node(one.group, name, folders, state) for name in (old, one.choice))
        if was is None or now is None or OmegaConf.select(composed, one.package) != was:
            return None
        OmegaConf.update(copy, one.package, now, merge=False)
    return copy


def replaced_plainly(
    composed: Node,
    before: Mapping[Any, Any],
    chosen: Iterable[PlainChoice],
    folders: tuple[Path, ...],
    state: Hashable,
) -> Node | None:
    """Return the plain fields in which these choices are made instead of those `before`; None where only Hydra can
    tell."""
    for one in chosen:
        old, path = before.get(one.key), one.package.split(".")
        if old is None:
            return None
        was, now = (_plain_node(one.group, name, folders, state) for name in (old, one.choice))
        if was is None or now is None or _at(composed, path) != was:
            return None
        composed = with_node(composed, path, now)
    return composed


def _at(fields: Node, path: Sequence[str]) -> Any:
    node: Any = fields
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


@lru_cache(maxsize=1024)
def _plain_node(group: str, name: str, folders: tuple[Path, ...], state: Hashable) -> Any:
    """Return the fields of a choice; None where one refers to another, too."""
    from omegaconf import OmegaConf

    node = _node(group, name, folders, state)
    fields = None if node is None else OmegaConf.to_container(node, resolve=False)
    return fields if is_plain(fields) else None


@lru_cache(maxsize=1024)
def _node(group: str, name: str, folders: tuple[Path, ...], state: Hashable) -> DictConfig | None:
    """Return the fields of a choice; None where its file names other groups or where it goes."""
    from omegaconf import DictConfig, OmegaConf

    file = file_of(group, name, folders)
    if file is None:
        return None
    text = file.read_text(encoding="utf-8")
    if any(line.startswith("#") and _HEADER in line for line in text.lstrip().splitlines()[:2]):
        return None
    own = OmegaConf.create(text)
    if not isinstance(own, DictConfig):
        return None
    defaults = own.pop("defaults", [_SELF])
    if not all(isinstance(one, str) for one in defaults) or _SELF not in defaults:
        return None
    parts = [own if one == _SELF else _node(group, one, folders, state) for one in defaults]
    if any(part is None for part in parts):
        return None
    merged = OmegaConf.merge(*[part for part in parts if part is not None])
    return merged if isinstance(merged, DictConfig) else None


GROUP = "model/size"


def without_unused_fields(config: Node, of_size: Node, of_model: Node) -> dict[str, Any]:
    """The configuration without those fields of the chosen size that the model's constructor does not take, and without
    those that the model's file sets for a part which was chosen otherwise and does not take them; a field that was set
    to something else by hand stays, to be refused."""
    model = config.get("model")
    if not isinstance(model, Mapping):
        return dict(config)
    used = _taken_of(model, of_size)
    parts = {key: block for key, block in of_model.items() if isinstance(block, Mapping)}
    parts = {key: _taken_of(used[key], block) for key, block in parts.items() if isinstance(used.get(key), Mapping)}
    return {**config, "model": {**used, **parts}}


def _taken_of(node: Node, provided: Node) -> dict[str, Any]:
    """Return a node without what was provided for it and its class does not take."""
    taken = arguments(str(node.get("_target_"))) if provided else None
    if taken is None:
        return dict(node)
    names = {item.name for item in taken}
    return {
        key: value
        for key, value in node.items()
        if key in names or key.startswith("_") or provided.get(key, ...) != value
    }


def fields_of_size(size: str, folders: Sequence[Path]) -> dict[str, Any]:
    """Return the fields of a model that a size names, and their values."""
    return fields_in_file(GROUP, size, folders)


def fields_in_file(group: str, name: str, folders: Sequence[Path]) -> dict[str, Any]:
    """Return the fields that the file of a choice sets itself, and their values."""
    path = file_of(group, name, folders)
    assert path is not None, "it was composed from that file"
    return dict(_fields_in(path, version_of(path.stat())))


@lru_cache(maxsize=256)
def _fields_in(path: Path, version: Hashable) -> Node:
    """Return the fields of one version of a file."""
    from omegaconf import OmegaConf

    del version
    content = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    assert isinstance(content, dict), "the file of a choice names fields"
    return {str(key): value for key, value in content.items() if key != "defaults"}


_SET = re.compile(r"\+\+(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=.*", re.DOTALL)
_REFERENCE, _MISSING = "$", "???"
_Scalar = str | int | float | bool | None


def is_plain(content: Any) -> bool:
    """Tell whether no text below refers to another field, and none is to be filled in."""
    if isinstance(content, Mapping):
        return all(isinstance(key, str) and is_plain(value) for key, value in content.items())
    if isinstance(content, list):
        return all(map(is_plain, content))
    return not isinstance(content, str) or not (_REFERENCE in content or content == _MISSING)


def with_values(config: Node, overrides: Iterable[str]) -> dict[str, Any] | None:
    """Return a copy in which these fields, ++path=value, are set; None where only Hydra can tell."""
    result = dict(config)
    for override in overrides:
        match = _SET.fullmatch(override)
        parsed = None if match is None else _parsed(override)
        if match is None or parsed is None or not _set(result, match["key"].split("."), *parsed):
            return None
    return result


def with_node(config: Node, path: Sequence[str], node: Any) -> dict[str, Any]:
    """Return a copy with another node at the path, all of which is there."""
    first, *rest = path
    return {**config, first: with_node(config[first], rest, node) if rest else node}


def _set(result: dict[str, Any], path: Sequence[str], value: Any) -> bool:
    """Set one field and copy what lies above it; False where that is not a mapping, or the field is one."""
    *above, last = path
    node = result
    for name in above:
        below = node.get(name)
        if not isinstance(below, dict):
            return False
        node[name] = node = dict(below)
    if isinstance(node.get(last), dict):
        return False
    node[last] = list(value) if isinstance(value, list) else value
    return True


@lru_cache(maxsize=4096)
def _parsed(override: str) -> tuple[_Scalar | list[_Scalar]] | None:
    """Return the value that Hydra's grammar reads; None where it is neither a scalar nor a list of them."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException:
        return None
    if parsed.is_sweep_override() or parsed.package is not None:
        return None
    value: Any = parsed.value()
    scalars = value if isinstance(value, list) else [value]
    if not all(one is None or isinstance(one, str | int | float) for one in scalars) or not is_plain(value):
        return None
    return (value,)
