"""Overrides looked at before Hydra is: group names and choices are checked against the files on disk.

Values are handed to Hydra as forced additions, so that it is the schema, with its better sentence, that refuses an
unknown key, and so that a field of a constructor can be set that its YAML does not spell out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headtohead.building.choices import STUDY, choice_names, groups
from headtohead.building.errors import ConfigurationError, nearest, one_of, unknown
from headtohead.building.patterns import named_mixers

_OVERRIDE = re.compile(r"(?P<sign>\+\+|\+|~|)(?P<key>[^=\s~+][^=\s]*)(?:=(?P<value>.*))?", re.DOTALL)
_EMPTY = "experiment"
"""A group of the root without a choice: Hydra would add a second one, where templates write +experiment=NAME."""
_PLAIN = re.compile(r"[\w.-]+")


def prepare(overrides: Sequence[str], config_dir: str | Path | None = None) -> list[str]:
    """The overrides as Hydra shall read them; refuses what no file on disk can answer."""
    known = set(groups(config_dir))
    complete = [*named_mixers(overrides, config_dir), *overrides]
    return [_prepare_one(override, known, config_dir) for override in complete]


def key_of(override: str) -> str:
    """The field or group that an override is about."""
    match = _OVERRIDE.fullmatch(override.strip())
    return match["key"] if match else override


def _prepare_one(override: str, known: set[str], config_dir: str | Path | None) -> str:
    match = _OVERRIDE.fullmatch(override.strip())
    if match is None:
        raise ConfigurationError(f"{override!r} is no override: write field=value or group=choice, without spaces")
    sign, key, value = match["sign"], match["key"], match["value"]
    if value is None and sign != "~":
        raise ConfigurationError(f"{override!r} has no value: write {key}=value, in quotes where it holds spaces")
    group, _, package = key.partition("@")
    if group in known and "." not in group:
        if value is not None and sign != "~":
            _check_choice(group, value.strip("'\""), config_dir)
        is_there = sign == "++" or (sign == "+" and key == _EMPTY)
        return f"{'' if is_there else sign}{key}" + ("" if value is None else f"={value}")
    if group == STUDY:
        raise ConfigurationError(f"{override} is a question about many runs, and no part of one: h2h study {value}")
    if "/" in group or package:
        _refuse_group(group, known)
    if group.replace(".", "/") in known:
        group = key.replace(".", "/")
        if _PLAIN.fullmatch(value or ""):
            raise ConfigurationError(f"{key} is a group, and groups are written with a slash: {group}={value}")
        raise ConfigurationError(
            f"{key} is a group: put its fields into DIR/{group}/NAME.yaml and give --config-dir DIR {group}=NAME"
        )
    if key.startswith("hydra."):
        raise ConfigurationError(f"{key} has no effect, since Hydra only composes here: set output_dir, group or name")
    if sign == "~":
        return override
    return f"++{key}={value}"


def _check_choice(group: str, choice: str, config_dir: str | Path | None) -> None:
    if choice.startswith("[") and choice.endswith("]"):
        for one in filter(None, (one.strip() for one in choice[1:-1].split(","))):
            _check_choice(group, one, config_dir)
    if not _PLAIN.fullmatch(choice):
        return
    names = choice_names(group, config_dir)
    if choice not in names:
        raise ConfigurationError(unknown(f"{group}={choice} does not exist", choice, names))


def _refuse_group(group: str, known: set[str]) -> None:
    by_leaf = {name.rpartition("/")[2]: name for name in known}
    guess = by_leaf.get(nearest(group.rpartition("/")[2], by_leaf) or "")
    hint = f"did you mean {guess}?" if guess else f"the groups are {one_of(known)}"
    raise ConfigurationError(f"{group} is not a group ({hint}); a single field is written with dots, model.d_model=128")
