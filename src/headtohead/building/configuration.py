"""Composition by Hydra: a root, the choices of its groups and the overrides become one plain, resolved dictionary."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.building.choices import config_folder, config_folders, yaml_files
from headtohead.building.errors import ConfigurationError, show, unknown
from headtohead.building.model_sizes import without_unasked
from headtohead.building.naming import run_name
from headtohead.building.overrides import prepare
from headtohead.building.own_files import check_all, check_chosen
from headtohead.building.plain_choices import plain_choices, replaced
from headtohead.building.published import starts_published, with_its_choices
from headtohead.building.resuming import continued
from headtohead.building.suiting import suited, with_own_tokenizer

if TYPE_CHECKING:
    from omegaconf import DictConfig

Config = dict[str, Any]
_VARIABLE = re.compile(r"oc\.env:\s*['\"]?([^\s,}'\"]+)")
_EXPERIMENT = "experiment"
_FIELD_AWAY = re.compile(r"~[\w@]+\.")
SEVERAL = "augmentation"
"""The group of which several choices may be made at once, augmentation=[token_dropping,swapping]."""


def compose(root: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> Config:
    """A resolved configuration with its choices listed, not yet checked for sense.

    `config_dir` holds a user's own YAML files by group; what the package has under the same name comes first.
    """
    folders = config_folders(config_dir)
    roots = sorted(path.stem for path in folders[0].glob("*.yaml"))
    if root not in roots:
        raise ConfigurationError(unknown(f"{root} is not a root configuration", root, roots))
    config, chosen = _compose_by_hydra(root, prepare(overrides, config_dir), folders)
    if _EXPERIMENT in config:
        raise ConfigurationError(_without_header(chosen.get(_EXPERIMENT), folders))
    return {**without_unasked(config, chosen, folders), "choices": chosen}


def _compose_by_hydra(
    root: str, overrides: Sequence[str], folders: Sequence[Path]
) -> tuple[Config, dict[str, str | None]]:
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    check_chosen(overrides, folders[1:])
    choices, values = _choices_and_values(overrides)
    try:
        config, chosen = _with_choices(root, choices, tuple(folders))
        _set_values(config, values)
        plain = OmegaConf.to_container(config, resolve=True)
    except ConfigurationError:
        raise
    except (HydraException, OmegaConfBaseException, ValueError, YAMLError, RecursionError) as error:
        check_all(folders[1:])
        raise ConfigurationError(_one_sentence(error)) from error
    assert isinstance(plain, dict)
    return (
        {str(key): value for key, value in plain.items()},
        dict(sorted({**_lists(overrides), **_of_groups(chosen)}.items())),
    )


def _choices_and_values(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part choices of groups from values of fields, which Hydra sets or takes away after all choices are made."""
    values = [override for override in overrides if override.startswith("++") or _FIELD_AWAY.match(override)]
    return [override for override in overrides if override not in values], values


def _state_of(folders: Sequence[Path], choices: Sequence[str]) -> Hashable:
    """Tell the files and the environment variables that one composition reads from those of another."""
    files = frozenset(
        (entry.path, entry.stat().st_mtime_ns) for folder in folders for entry in yaml_files(folder) if entry.is_file()
    )
    read = _variables_in(files) | set(_VARIABLE.findall(" ".join(choices)))
    every = any("$" in name for name in read)  # the name of one is itself looked up
    return files, frozenset(item for item in os.environ.items() if every or item[0] in read)


@lru_cache(maxsize=8)
def _variables_in(files: frozenset[tuple[str, int]]) -> frozenset[str]:
    """Return the names of the environment variables that the files look up."""
    texts = (Path(path).read_text(encoding="utf-8", errors="replace") for path, _ in files)
    return frozenset(name for text in texts for name in _VARIABLE.findall(text))


def _with_choices(root: str, choices: Sequence[str], folders: tuple[Path, ...]) -> tuple[DictConfig, Mapping[Any, Any]]:
    """Return a copy in which the choices of groups are made: those that name other groups by Hydra, once for all that
    is set on them, and those that are a file of fields by putting these in their place."""
    state = _state_of(folders, choices)
    plain = plain_choices(choices, folders, state)
    others = tuple(choice for choice in choices if choice not in plain)
    composed, chosen = _by_hydra(root, others, folders, state)
    config = replaced(composed, dict(chosen), plain.values(), folders, state)
    if config is not None:
        return config, {**chosen, **{one.key: one.choice for one in plain.values()}}
    composed, chosen = _by_hydra(root, tuple(choices), folders, state)
    config = replaced(composed, {}, (), folders, state)
    assert config is not None, "nothing was to be replaced"
    return config, chosen


@lru_cache(maxsize=64)
def _by_hydra(
    root: str, choices: tuple[str, ...], folders: tuple[Path, ...], state: Hashable
) -> tuple[DictConfig, Mapping[Any, Any]]:
    """Compose choices of groups, which takes a tenth of a second."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    del state
    searched = [f"hydra.searchpath=['{folder}']" for folder in folders[1:]]
    with warnings.catch_warnings(), initialize_config_dir(str(folders[0]), version_base="1.3"):
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

    from headtohead.building.schema import fields_of

    key, _, value = override[1:].partition("=")
    path, _, field = key.rpartition(".")
    node = OmegaConf.select(config, path)
    if not isinstance(node, DictConfig):
        raise ConfigurationError(f"{override} takes nothing away: there is no {path}")
    if field in node:
        if value and str(node[field]) != value:
            raise ConfigurationError(f"{override} takes nothing away: {key} is {show(node[field])}")
        del node[field]
        return
    fields = fields_of(path.replace(".", "/"), {"_target_": node["_target_"]}) if "_target_" in node else None
    if fields is not None and field not in fields.kinds:
        raise ConfigurationError(f"{override} takes nothing away: {key} is not a field of {fields.owner}")


def _without_header(name: str | None, folders: Sequence[Path]) -> str:
    file = next((path for folder in folders if (path := folder / _EXPERIMENT / f"{name}.yaml").is_file()), name)
    return (
        f"{file} has no header, so that its fields lie below {_EXPERIMENT} and change nothing: "
        f"its first line must be # @package _global_"
    )


def _of_groups(chosen: Mapping[Any, Any]) -> dict[str, str | None]:
    return {str(group): choice for group, choice in chosen.items() if not str(group).startswith("hydra/")}


def _lists(overrides: Sequence[str]) -> dict[str, str | None]:
    """Several choices of one group, of which Hydra does not tell."""
    pairs = (override.partition("=") for override in overrides)
    return {group: choices for group, _, choices in pairs if group == SEVERAL and choices.startswith("[")}


def _one_sentence(error: Exception) -> str:
    """Hydra's errors run over many lines and offer what is no help here; the first line is what matters."""
    first, *rest = (line.strip().replace("++", "") for line in str(error).splitlines())
    if first.startswith("Ambiguous value"):
        field, _, value = first.split("'")[1].partition("=")
        return (
            f"{field}={value} holds several values and this is one run: write {field}=[{value}] for a list, "
            f"or h2h train --multirun for one run each"
        )
    if type(error).__name__ == "OverrideParseException":
        known = next((line for line in (first, *rest) if "override '" in line), first)
        return f"an override could not be read ({known}): quote special characters, for example \"notes='a, b = c'\""
    if "appears more than once" in first:
        return f"{first.split()[0]} is chosen already: write {first.split()[0]}=CHOICE without the plus sign"
    if first.startswith("Could not override"):
        group = first.split("'")[1]
        return f"{group} cannot be chosen here: no other choice has such a part; h2h train --cfg job shows the parts"
    return f"the configuration could not be composed: {first[0].lower()}{first[1:]}"


def compose_checked(root: str, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> Config:
    """A named configuration whose keys are checked and whose choices go together, as far as can be known unbuilt."""
    from headtohead.building import compatibility, schema
    from headtohead.building.epochs import settled_length

    composed = suited(compose(root, overrides, config_dir), overrides, lambda more: compose(root, more, config_dir))
    composed = with_own_tokenizer(composed, overrides)
    if starts_published(composed):
        composed = with_its_choices(composed, overrides, lambda all_of_them: compose(root, all_of_them, config_dir))
    config = schema.check(
        continued(composed, overrides, lambda override: compose(root, [override], config_dir)) or composed
    )
    config = settled_length(config, overrides, compatibility.check)
    if config.get("name") is None:
        config["name"] = run_name(config, overrides, config_folder())
    return config
