"""A run composed by Hydra: choices of groups once for all that is set on them, then the values of fields."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.config.compose.choices import check_all, check_chosen, yaml_files
from headtohead.config.compose.overrides import unreadable
from headtohead.config.compose.plain_choices import plain_choices, replaced
from headtohead.config.compose.replacements import searched_first, version_of
from headtohead.config.errors import ConfigurationError, show

if TYPE_CHECKING:
    from omegaconf import DictConfig

Config = dict[str, Any]
_VARIABLE = re.compile(r"oc\.env:\s*['\"]?([^\s,}'\"]+)")
_FIELD_AWAY = re.compile(r"~[\w@]+\.")
SEVERAL = "augmentation"
"""The group of which several choices may be made at once, augmentation=[token_dropping,swapping]."""


def compose_by_hydra(
    root: str, overrides: Sequence[str], folders: Sequence[Path]
) -> tuple[Config, dict[str, str | None]]:
    """Return the resolved configuration and the choices that were made."""
    from omegaconf import OmegaConf

    check_chosen(overrides, folders[1:])
    choices, values = choices_and_values(overrides)
    try:
        config, chosen = _with_choices(root, choices, tuple(folders))
        _set_values(config, values)
        plain = OmegaConf.to_container(config, resolve=True)
    except ConfigurationError:
        raise
    except composition_errors() as error:
        check_all(folders[1:])
        raise ConfigurationError(_one_sentence(error)) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}, choices_made(overrides, chosen)


def composition_errors() -> tuple[type[Exception], ...]:
    """Return what Hydra, OmegaConf and YAML raise where something cannot be composed."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    return HydraException, OmegaConfBaseException, ValueError, YAMLError, RecursionError


def choices_made(overrides: Sequence[str], chosen: Mapping[Any, Any]) -> dict[str, str | None]:
    """List the choice of every group, several of one group as they were written."""
    return dict(sorted({**_lists(overrides), **_of_groups(chosen)}.items()))


def choices_and_values(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part choices of groups from values of fields, which Hydra sets or takes away after all choices are made."""
    choices: list[str] = []
    values: list[str] = []
    for override in overrides:
        (values if override.startswith("++") or _FIELD_AWAY.match(override) else choices).append(override)
    return choices, values


def state_of(folders: Sequence[Path], choices: Sequence[str]) -> Hashable:
    """Tell the files and the environment variables that one composition reads from those of another."""
    files = frozenset(
        (entry.path, version_of(entry.stat())) for folder in folders for entry in yaml_files(folder) if entry.is_file()
    )
    read = _variables_in(files) | set(_VARIABLE.findall(" ".join(choices)))
    every = any("$" in name for name in read)  # the name of one is itself looked up
    return files, frozenset(item for item in os.environ.items() if every or item[0] in read)


@lru_cache(maxsize=8)
def _variables_in(files: frozenset[tuple[str, tuple[int, ...]]]) -> frozenset[str]:
    """Return the names of the environment variables that the files look up."""
    texts = (Path(path).read_text(encoding="utf-8", errors="replace") for path, _ in files)
    return frozenset(name for text in texts for name in _VARIABLE.findall(text))


def _with_choices(root: str, choices: Sequence[str], folders: tuple[Path, ...]) -> tuple[DictConfig, Mapping[Any, Any]]:
    """Return a copy in which the choices of groups are made: those that name other groups by Hydra, once for all that
    is set on them, and those that are a file of fields by putting these in their place."""
    state = state_of(folders, choices)
    plain = plain_choices(choices, folders, state)
    others = tuple(choice for choice in choices if choice not in plain)
    composed, chosen = groups_by_hydra(root, others, folders, state)
    config = replaced(composed, dict(chosen), plain.values(), folders, state)
    if config is not None:
        return config, {**chosen, **{one.key: one.choice for one in plain.values()}}
    composed, chosen = groups_by_hydra(root, tuple(choices), folders, state)
    config = replaced(composed, {}, (), folders, state)
    assert config is not None, "nothing was to be replaced"
    return config, chosen


@lru_cache(maxsize=256)
def groups_by_hydra(
    root: str, choices: tuple[str, ...], folders: tuple[Path, ...], state: Hashable
) -> tuple[DictConfig, Mapping[Any, Any]]:
    """Compose choices of groups, which takes a tenth of a second."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    del state
    searched = [f"hydra.searchpath=['{folder}']" for folder in folders[1:]]
    started = initialize_config_dir(str(folders[0]), version_base="1.3")
    with warnings.catch_warnings(), started, searched_first(folders):
        warnings.filterwarnings("ignore", message="provider=hydra.searchpath")
        composed = hydra_compose(root, overrides=[*searched, *choices], return_hydra_config=True)
    chosen = OmegaConf.to_container(composed.hydra.runtime.choices)
    assert isinstance(chosen, dict)
    return composed, chosen


def _set_values(config: DictConfig, values: Sequence[str]) -> None:
    """Set fields as Hydra does once its groups are composed."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.types import RunMode

    parser = OverridesParser.create()
    for takes_away, together in groupby(values, lambda value: value.startswith("~")):
        if takes_away:
            for value in together:
                _take_away(config, value)
            continue
        parsed = parser.parse_overrides(list(together))
        ConfigLoaderImpl.validate_sweep_overrides_legal(overrides=parsed, run_mode=RunMode.RUN, from_shell=False)
        ConfigLoaderImpl._apply_overrides_to_config(parsed, config)


def _take_away(config: DictConfig, override: str) -> None:
    """Take a field out, `~trainer.patience`, so that it has its constructor's default: also where it is null, of which
    Hydra says that it does not exist, and where the YAML does not spell it out."""
    from omegaconf import DictConfig, OmegaConf

    from headtohead.config.schema.key_checks import fields_of

    key, _, value = override[1:].partition("=")
    path, _, field = key.rpartition(".")
    node = OmegaConf.select(config, path)
    if not isinstance(node, DictConfig):
        raise ConfigurationError(f"{override} deletes nothing: there is no {path}")
    if field in node:
        if value and str(node[field]) != value:
            raise ConfigurationError(f"{override} deletes nothing: {key} is {show(node[field])}")
        del node[field]
        return
    fields = fields_of(path.replace(".", "/"), {"_target_": node["_target_"]}) if "_target_" in node else None
    if fields is not None and field not in fields.kinds:
        raise ConfigurationError(f"{override} deletes nothing: {key} is not a field of {fields.owner}")


def _of_groups(chosen: Mapping[Any, Any]) -> dict[str, str | None]:
    return {str(group): choice for group, choice in chosen.items() if not str(group).startswith("hydra/")}


def _lists(overrides: Sequence[str]) -> dict[str, str | None]:
    """Several choices of one group, of which Hydra does not tell."""
    pairs = (override.partition("=") for override in overrides)
    return {group: choices for group, _, choices in pairs if group == SEVERAL and choices.startswith("[")}


def _one_sentence(error: Exception) -> str:
    """Hydra's errors run over many lines and offer what is no help here; the first line is what matters."""
    first = str(error).partition("\n")[0].strip().replace("++", "")
    if first.startswith("Ambiguous value"):
        field, _, value = first.split("'")[1].partition("=")
        return (
            f"{field}={value} holds several values and this is one run: write {field}=[{value}] for a list, "
            f"\"{field}='{value}'\" for one text, or h2h train --multirun for one run each"
        )
    if type(error).__name__ == "OverrideParseException":
        return unreadable(str(getattr(error, "override", first)))
    if "appears more than once" in first:
        return f"{first.split()[0]} is chosen already: write {first.split()[0]}=CHOICE without the plus sign"
    if first.startswith("Could not override"):
        group = first.split("'")[1]
        return f"{group} cannot be chosen here: no other choice has such a part; h2h train --cfg job shows the parts"
    return f"the configuration could not be composed: {first[0].lower()}{first[1:]}"
