"""Runs composed from one root: what they share is read and composed once, what sets them apart is put into a copy."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from headtohead.config.compose.by_hydra import (
    Config,
    choices_and_values,
    choices_made,
    compose_by_hydra,
    composition_errors,
    groups_by_hydra,
    state_of,
)
from headtohead.config.compose.choices import STUDY, check_chosen, config_folders, groups
from headtohead.config.compose.layer_patterns import named_parts
from headtohead.config.compose.overrides import check_digits, prepare
from headtohead.config.compose.plain_choices import GROUP as SIZE
from headtohead.config.compose.plain_choices import (
    fields_in_file,
    is_plain,
    plain_choices,
    replaced_plainly,
    with_values,
    without_unused_fields,
)
from headtohead.config.compose.replacements import REPLACED, file_of, refuse_unasked, replaced_in
from headtohead.config.errors import ConfigurationError, unknown

_EXPERIMENT = "experiment"
_FIELD = re.compile(r"\+{0,2}(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(?P<value>.*)", re.DOTALL)
_MODEL = "model"
_OF_HYDRA = "hydra"


class _Chosen(NamedTuple):
    """A composition in which the choices of groups are made, before any value is set."""

    fields: Mapping[str, object]
    choices: Mapping[Any, Any]


@lru_cache(maxsize=256)
def _plain_groups(root: str, choices: tuple[str, ...], folders: tuple[Path, ...], state: Hashable) -> _Chosen | None:
    """Return what Hydra composes as plain fields, which is to be copied; None where one refers to another."""
    from omegaconf import OmegaConf

    composed, chosen = groups_by_hydra(root, choices, folders, state)
    own = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != _OF_HYDRA])
    fields: Any = OmegaConf.to_container(own, resolve=False)
    return _Chosen(fields, chosen) if is_plain(fields) else None


class Composer:
    """Composes as many runs as are requested; of the files it sees those that there were at the first of them, and
    what it returns shares nodes that nobody may change."""

    def __init__(self, root: str, config_dir: str | Path | None = None) -> None:
        self._root, self._config_dir, self._folders = root, config_dir, config_folders(config_dir)
        roots = sorted(path.stem for path in self._folders[0].glob("*.yaml"))
        if root not in roots:
            raise ConfigurationError(unknown(f"{root} is not a root configuration", root, roots))
        self._state = lru_cache(maxsize=None)(lambda choices: state_of(self._folders, choices))
        self._prepared_choice = lru_cache(maxsize=None)(
            lambda override: prepare([override], config_dir, self._groups)[0]
        )
        self._chosen = lru_cache(maxsize=None)(self._choose)
        self._container = lru_cache(maxsize=None)(self._compose_groups)
        self._replaced = lru_cache(maxsize=None)(self._look_for_replaced)
        self._of_choice = lru_cache(maxsize=None)(lambda group, name: fields_in_file(group, name, self._folders))

    def compose(self, overrides: Sequence[str] = ()) -> Config:
        """A resolved configuration with its choices listed, not yet checked for sense."""
        config, chosen = self._composed(self._prepared(overrides))
        if _EXPERIMENT in config:
            raise ConfigurationError(self._without_header(chosen.get(_EXPERIMENT)))
        replaced = self._replaced(tuple(chosen.items()))
        used = without_unused_fields(config, *(self._set_by(group, chosen.get(group)) for group in (SIZE, _MODEL)))
        return {**used, "choices": chosen, **({REPLACED: replaced} if replaced else {})}

    def _set_by(self, group: str, choice: str | None) -> Config:
        return {} if choice is None else self._of_choice(group, choice)

    def _composed(self, overrides: Sequence[str]) -> tuple[Config, dict[str, str | None]]:
        choices, values = choices_and_values(overrides)
        chosen = self._chosen(tuple(choices))
        config = None if chosen is None else with_values(chosen.fields, values)
        if config is None or chosen is None:
            return compose_by_hydra(self._root, overrides, self._folders)
        return config, choices_made(overrides, chosen.choices)

    def _prepared(self, overrides: Sequence[str]) -> list[str]:
        if named_parts(overrides, self._config_dir):
            return prepare(overrides, self._config_dir, self._groups)
        return [self._prepared_one(override) for override in overrides]

    def _prepared_one(self, override: str) -> str:
        """A field is set whatever its value is; a choice is looked up among the files."""
        match = _FIELD.fullmatch(override)
        if match is None or not self._is_field(match["key"]):
            return self._prepared_choice(override)
        check_digits(override)
        return f"++{match['key']}={match['value']}"

    def _is_field(self, key: str) -> bool:
        return key.partition(".")[0] != _OF_HYDRA and key != STUDY and key.replace(".", "/") not in self._groups

    @cached_property
    def _groups(self) -> frozenset[str]:
        return frozenset(groups(self._config_dir))

    def _choose(self, choices: tuple[str, ...]) -> _Chosen | None:
        """Return the composition of these choices; None where only Hydra can tell, or refuses."""
        check_chosen(choices, self._folders[1:])
        try:
            state = self._state(choices)
            plain = plain_choices(choices, self._folders, state)
            others = tuple(choice for choice in choices if choice not in plain)
            composed = self._container(others, state)
            if composed is None:
                return None
            fields = replaced_plainly(*composed, plain.values(), self._folders, state)
        except composition_errors():
            return None
        made = {**composed.choices, **{one.key: one.choice for one in plain.values()}}
        return None if fields is None else _Chosen(fields, made)

    def _compose_groups(self, choices: tuple[str, ...], state: Hashable) -> _Chosen | None:
        """Return what Hydra composes as plain fields; None where one refers to another."""
        return deepcopy(_plain_groups(self._root, choices, self._folders, state))

    def _look_for_replaced(self, chosen: tuple[tuple[str, str | None], ...]) -> dict[str, str]:
        """Return the choices that a user's files replace; refuse a file that hides another one."""
        for group, choice in chosen if self._folders[1:] else ():
            refuse_unasked(group.partition("@")[0], str(choice), self._folders)
        return replaced_in(dict(chosen), self._folders)

    def _without_header(self, name: str | None) -> str:
        file = file_of(_EXPERIMENT, str(name), self._folders)
        return (
            f"{file} has no header, so that its fields lie below {_EXPERIMENT} and change nothing: "
            f"its first line must be # @package _global_"
        )
