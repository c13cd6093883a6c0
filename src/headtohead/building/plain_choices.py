"""Choices that are a file of fields and nothing more: they replace a node of a composition, without Hydra's help.

Hydra takes a tenth of a second to compose a run, and a plan of a thousand arms composes a thousand of them. A choice
whose file names no other groups changes one node alone; it is put in the place of the node that was composed, provided
that this is still the file of the choice before it, which nothing else has written into.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from omegaconf import DictConfig

_OVERRIDE = re.compile(r"(?P<group>[\w/]+)(?:@(?P<package>[\w.]+))?=(?P<choice>[\w.-]+)")
_SELF = "_self_"
_HEADER = "@package"


class PlainChoice(NamedTuple):
    """`group@package=choice`, of which the package follows from the group where it is not written."""

    key: str
    """As Hydra lists it among the choices: model/norm, or model/norm@model.encoder.norm."""
    group: str
    package: str
    choice: str


def plain_choices(overrides: Iterable[str], folders: tuple[Path, ...], state: Hashable) -> dict[str, PlainChoice]:
    """Return the overrides that are such choices, by their text; a group that is chosen twice is left to Hydra."""
    found = {}
    for override in overrides:
        if match := _OVERRIDE.fullmatch(override):
            group, package = match["group"], match["package"]
            key = f"{group}@{package}" if package else group
            found[override] = PlainChoice(key, group, package or group.replace("/", "."), match["choice"])
    keys = [choice.key for choice in found.values()]
    return {
        override: one
        for override, one in found.items()
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


@lru_cache(maxsize=1024)
def _node(group: str, name: str, folders: tuple[Path, ...], state: Hashable) -> DictConfig | None:
    """Return the fields of a choice; None where its file names other groups or where it goes."""
    from omegaconf import DictConfig, OmegaConf

    file = next((path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()), None)
    if file is None:
        return None
    text = file.read_text(encoding="utf-8")
    if text.lstrip().startswith("#") and _HEADER in text.partition("\n")[0]:
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
