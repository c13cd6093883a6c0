"""Overrides looked at before Hydra is: group names and choices are checked against the files on disk.

Values are handed to Hydra as forced additions, so that it is the schema, with its better sentence, that refuses an
unknown key, and so that a field of a constructor can be set that its YAML does not spell out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headtohead.config.compose.choices import STUDY, choice_names, config_folders, groups
from headtohead.config.compose.layer_patterns import named_parts
from headtohead.config.compose.replacements import is_choice, refuse_unasked
from headtohead.config.errors import ConfigurationError, nearest, one_of, show, unknown

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

_OVERRIDE = re.compile(r"(?P<sign>\+\+|\+|~|)(?P<key>[^=\s~+][^=\s]*)(?:=(?P<value>.*))?", re.DOTALL)
_EMPTY = "experiment"
"""A group of the root without a choice: Hydra would add a second one, where templates write +experiment=NAME."""
_PLAIN = re.compile(r"[\w.-]+")
_ENDLESS = re.compile(r"\d{400,}")
_BARE = re.compile(r"(?!\d[\d.]*_[\d._]*$)[\w./+-]+", re.ASCII)
"""A text that needs no quotes; one of digits is a number that YAML read as a text, as it does with 1e-3."""
_OPENING = ("[", "{", "'", '"')
_QUOTED = "\"notes='a, b = c'\""
_WORDS_OF_YAML = ("null", "true", "false", "nan", "inf")
_BEFORE_REFERENCE = re.compile(r"(\\*)\$\{")
"""A text like a reference to another field, with the backslashes before it, which are doubled there."""
_BEFORE_QUOTE = re.compile(r"(\\*)('|$)")
"""A quote, or the end, with the backslashes before it, which are doubled there."""


def prepare(
    overrides: Sequence[str], config_dir: str | Path | None = None, known: Collection[str] | None = None
) -> list[str]:
    """The overrides as Hydra shall read them; refuses what no file on disk can answer. `known` are the groups, for
    whoever has looked for them before."""
    known = frozenset(groups(config_dir)) if known is None else known
    complete = [*named_parts(overrides, config_dir), *overrides]
    return [_prepare_one(override, known, config_dir) for override in complete]


def key_of(override: str) -> str:
    """The field or group that an override is about."""
    match = _OVERRIDE.fullmatch(override.strip())
    return match["key"] if match else override


def field_overrides(fields: Mapping[str, object]) -> list[str]:
    """Return the overrides that set nested fields: {"model": {"d_model": 64}} gives ["model.d_model=64"]."""
    return [f"{path}={value_in_override(value)}" for path, value in leaves(fields)]


def value_in_override(value: object) -> str:
    """Return a value as an override has it, which is read as the same value: texts in quotes where they need them."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {value_in_override(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(value_in_override, value)) + "]"
    if value is None or isinstance(value, bool):
        return show(value)
    text = str(value)
    if isinstance(value, int | float) or (_BARE.fullmatch(text) and text.lower() not in _WORDS_OF_YAML):
        return text
    return _quoted(text)


def name_in_override(name: str) -> str:
    """Return a name as an override has it, which is read as a text even where it looks like a number."""
    return value_in_override(name) if name[:1].isalpha() else _quoted(name)


def _quoted(text: str) -> str:
    text = _BEFORE_REFERENCE.sub(lambda match: match[1] * 2 + "\\${", text)
    return "'" + _BEFORE_QUOTE.sub(lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text) + "'"


def unreadable(override: str) -> str:
    """Return why an override could not be read, and how it is typed; of a list or a text in quotes it is not known
    what was meant."""
    override = override.lstrip("+")
    key, equals, value = override.partition("=")
    if not equals and _OVERRIDE.fullmatch(override):
        return _without_value(override, key)
    if not value or value.startswith(_OPENING) or "," in value:
        return (
            f"{override} could not be read: close each bracket and quote, and quote special characters, as in {_QUOTED}"
        )
    return f'{override} could not be read: put its value in quotes, "{key}={value_in_override(value)}"'


def leaves(node: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield the path and value of each field below a node."""
    for key, value in node.items():
        path = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def check_digits(override: str) -> None:
    """Raise ConfigurationError for a number that Python itself refuses to read."""
    if match := _ENDLESS.search(override):
        digits = len(match[0])
        raise ConfigurationError(
            f"{key_of(override)} is refused: a number of {digits} digits is given; give a smaller one"
        )


_FILES_OF_RUN = ("record.json", "config.yaml")


def _without_value(override: str, key: str) -> str:
    if "/" in key and (path := Path(override)).exists():
        folder = path if path.is_dir() else path.parent
        is_run = path in (folder, *map(folder.joinpath, _FILES_OF_RUN)) and (folder / _FILES_OF_RUN[0]).is_file()
        ways = (
            f"h2h train, inspect, plan and doctor take the settings of a run by --from-run {override}; "
            f"init_from={folder} takes its weights, and resume_from={folder} continues it"
            if is_run
            else f"write the field that it is for, as in data.path={override}"
        )
        return f"{override!r} is a path, and no override: {ways}"
    return f"{override!r} has no value: write {key}=value, in quotes where it holds spaces"


def _prepare_one(override: str, known: Collection[str], config_dir: str | Path | None) -> str:
    match = _OVERRIDE.fullmatch(override.strip())
    if match is None:
        raise ConfigurationError(f"{override!r} is not an override: write field=value or group=choice, without spaces")
    sign, key, value = match["sign"], match["key"], match["value"]
    check_digits(override)
    if value is None and sign != "~":
        raise ConfigurationError(_without_value(override, key))
    group, _, package = key.partition("@")
    if group in known and "." not in group:
        if value is not None and sign != "~":
            _check_choice(group, value.strip("'\""), config_dir)
        is_there = sign == "++" or (sign == "+" and key == _EMPTY)
        return f"{'' if is_there else sign}{key}" + ("" if value is None else f"={value}")
    if group == STUDY:
        raise ConfigurationError(f"{override} is a question about many runs, and no part of one: `h2h study {value}`")
    if ("/" in group or package) and not group.startswith("hydra/"):
        _refuse_group(group, known)
    if key.startswith(("hydra.", "hydra/")):
        raise ConfigurationError(_instead_of(key))
    if group.replace(".", "/") in known:
        group = key.replace(".", "/")
        if sign == "~":
            raise ConfigurationError(f"{key} cannot be deleted: choose another, {group}=CHOICE (h2h list {group})")
        if _PLAIN.fullmatch(value or ""):
            raise ConfigurationError(f"{key} is a group, and groups are written with a slash: {group}={value}")
        raise ConfigurationError(
            f"{key} is a group: put its fields into DIR/{group}/NAME.yaml and give --config-dir DIR {group}=NAME"
        )
    if sign == "~":
        return override
    return f"++{key}={value}"


def _check_choice(group: str, choice: str, config_dir: str | Path | None) -> None:
    if choice.startswith("[") and choice.endswith("]"):
        for one in filter(None, (one.strip() for one in choice[1:-1].split(","))):
            _check_choice(group, one, config_dir)
    if choice.startswith("{"):
        raise ConfigurationError(f"{group}={choice} is not a choice: name one, h2h list {group} shows them all")
    if not _PLAIN.fullmatch(choice):
        return
    folders = config_folders(config_dir)
    if not is_choice(group, choice, folders):
        names = choice_names(group, config_dir)
        raise ConfigurationError(unknown(f"{group}={choice} does not exist", choice, names))
    refuse_unasked(group, choice, folders)


_INSTEAD = {
    "hydra.searchpath": "--config-dir DIR adds a folder of YAML files",
    "hydra.mode": "-m makes many runs",
    "hydra.verbose": "HEADTOHEAD_DEBUG=1 shows where an error arose",
    "hydra.run": "output_dir=DIR, group and name make a run's folder",
    "hydra.sweep": "output_dir=DIR and group make the folder of many runs",
    "hydra.sweeper": "-m runs every combination, h2h sweep FILE runs a W&B sweep file",
    "hydra.launcher": "launcher=slurm and launcher=ray start runs elsewhere, --workers several at once (h2h list "
    "launcher)",
    "hydra.job.name": "name=NAME names a run",
    "hydra.job.env_set": "set variables before the command, NAME=VALUE h2h ...",
    "hydra.job.chdir": "a run keeps the working folder, and writes below output_dir",
    "hydra.output_subdir": "a run's config.yaml is in its own folder",
    "hydra.job_logging": "logs go to standard error: 2> FILE saves them",
    "hydra.hydra_logging": "logs go to standard error: 2> FILE saves them",
    "hydra.callbacks": "h2h.train in Python takes a configuration and returns the record",
}
"""The settings of Hydra's users, and what is typed here instead."""


def _instead_of(key: str) -> str:
    dotted = key.replace("/", ".").partition("@")[0]
    instead = next((advice for name, advice in _INSTEAD.items() if f"{dotted}.".startswith(f"{name}.")), None)
    instead = instead or "set output_dir, group or name"
    return f"{key} has no effect, since Hydra only composes here: {instead}"


def _refuse_group(group: str, known: Collection[str]) -> None:
    by_leaf = {name.rpartition("/")[2]: name for name in known}
    guess = by_leaf.get(nearest(group.rpartition("/")[2], by_leaf) or "")
    hint = f"did you mean {guess}?" if guess else f"the groups are {one_of(known)}"
    raise ConfigurationError(f"{group} is not a group ({hint}); a single field is written with dots, model.d_model=128")


MOST = 10_000


def override_combinations(overrides: Sequence[str], config_dir: str | Path | None = None) -> list[tuple[str, ...]]:
    """The overrides of every run, the last named field varying fastest; raises ConfigurationError.

    Of two values for one field the later counts.
    """
    points = {key_of(override): _points(override, config_dir) for override in overrides}
    number = prod(len(each) for each in points.values())
    if number > MOST:
        raise ConfigurationError(f"these are more than {MOST:,} combinations, the most: sweep over fewer values")
    return [tuple(point) for point in product(*points.values())]


def _points(override: str, config_dir: str | Path | None) -> list[str]:
    parsed = _parsed(override)
    if not parsed.is_sweep_override():
        return [override]
    if not parsed.is_discrete_sweep():
        raise ConfigurationError(
            f"{override} has no end of values: list them, as in {key_of(override)}=0.1,0.3, or let h2h sweep draw them"
        )
    values = _values(parsed, override, config_dir)
    if not values:
        raise ConfigurationError(f"{override} holds no value at all: list some, as in {key_of(override)}=0,1,2")
    return [f"{parsed.get_key_element()}={value}" for value in values]


def _values(parsed: Override, override: str, config_dir: str | Path | None) -> list[str]:
    from hydra.core.override_parser.types import Glob, ValueType

    if parsed.value_type is not ValueType.GLOB_CHOICE_SWEEP:
        try:
            return list(islice(parsed.sweep_string_iterator(), MOST + 1))
        except ValueError as error:  # a range whose step is 0
            raise ConfigurationError(f"{override} is refused: {error}") from None
    group = key_of(override).partition("@")[0]
    if group not in groups(config_dir):
        raise ConfigurationError(f"{override} is refused: glob chooses among files of a group, and {group} is none")
    pattern = cast(Glob, parsed.value())  # its own annotation leaves globs out
    names: list[str] = pattern.filter(choice_names(group, config_dir))
    if not names:
        raise ConfigurationError(f"{override} fits none of {', '.join(choice_names(group, config_dir))}")
    return names


def _parsed(override: str) -> Override:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    check_digits(override)
    try:
        return OverridesParser.create().parse_override(override)
    except HydraException:
        raise ConfigurationError(unreadable(override)) from None
