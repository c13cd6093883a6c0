"""The one door to recorded configurations: what a run names is checked before anything of it is imported.

A configuration that a reader types, or has among their own files, may name any class. One that lies in a run's folder
was written by whoever made the run, and making what it names runs code: it may name the choices that come with this
package, each in its own group, and beyond them what the reader trusts. docs/security.md says what that promises.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.config.compose.choices import config_folder
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.schema.slots import may_name
from headtohead.files.safe_read import read_yaml

if TYPE_CHECKING:
    from headtohead.records.run_folder import RunFolder

SETTINGS = "settings.yaml"
"""The file in the folder of the user's own settings: `trusted: [my_package]`."""
_TARGET, _CHOICES = "_target_", "choices"
_TARGET_LINE = re.compile(r"^\s*_target_:\s*([\w.]+)", re.MULTILINE)
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_GROUP, _CHOICE = re.compile(r"[\w./@-]+"), re.compile(r"[\w.+-]*|\[[\w.+, -]*\]")
_typed: ContextVar[tuple[str, ...]] = ContextVar("names that the user trusts with this command", default=())


@contextmanager
def trusting(names: Iterable[str] = ()) -> Iterator[None]:
    """Let runs name these packages, modules or classes within the context, and whatever `trust` adds."""
    token = _typed.set((*_typed.get(), *_dotted(names, "--trust")))
    try:
        yield
    finally:
        _typed.reset(token)


def trust(names: Iterable[str]) -> None:
    """Add names to those that the reader trusts with this command."""
    _typed.set((*_typed.get(), *_dotted(names, "--trust")))


def check_recorded(config: Mapping[str, object], file: Path) -> None:
    """Raise ConfigurationError where the configuration in a run's file names what its reader has not trusted."""
    from headtohead.records.signatures import is_signed

    _check_choices(config.get(_CHOICES), file)
    external = [(path, name) for path, group, name in targets(config) if not is_shipped(group, name)]
    if not external:
        return
    trusted = (*_typed.get(), *_trusted_in_settings())
    left = [(path, name) for path, name in external if not is_trusted(name, trusted)]
    if left and not is_signed(file.parent, config):
        raise ConfigurationError(_refusal(*left[0], str(file)))


def check_given_values(values: Any, source: str, path: str = "") -> None:
    """Raise ConfigurationError where values from a server or a published file, which are about to become overrides,
    name a class or hold a reference."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            check_given_values(value, source, f"{path}.{key}" if path else str(key))
    elif isinstance(values, list | tuple):
        for value in values:
            check_given_values(value, source, path)
    elif path.rpartition(".")[2] == _TARGET and _is_name(values):
        group = path.rpartition(".")[0].replace(".", "/")
        if not is_shipped(group, values) and not is_trusted(values, (*_typed.get(), *_trusted_in_settings())):
            raise ConfigurationError(_refusal(path, values, source))
    elif "${" in path or (isinstance(values, str) and ("${" in values or _TARGET in values)):
        raise ConfigurationError(
            f"{path}={show(values)} of {source} is refused: from there come plain values, no references and no "
            "classes; write it as a choice of your own (--config-dir)"
        )


def recorded_config(run: RunFolder) -> dict[str, Any]:
    """Return the configuration of a run, fit to be made."""
    from headtohead.records.run_folder import CONFIG

    config = run.read_config()
    check_recorded(config, run.path / CONFIG)
    return config


def targets(config: Mapping[str, object]) -> Iterator[tuple[str, str, Any]]:
    """Yield the place, the group and the value of each `_target_`, wherever it stands."""
    for key, value in config.items():
        if key == _TARGET:
            yield _TARGET, "", value
        elif key != _CHOICES:
            yield from _targets_below(str(key), str(key), value)


def _targets_below(path: str, group: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == _TARGET:
                yield f"{path}.{key}", group, item
            else:
                yield from _targets_below(f"{path}.{key}", f"{group}/{key}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _targets_below(f"{path}.{index}", group, item)


def is_shipped(group: str, target: Any) -> bool:
    """Return whether a choice of this group that comes with the package names this class."""
    return isinstance(target, str) and target in _shipped(group.partition("/")[0]) and may_name(group, target)


@lru_cache(maxsize=32)
def _shipped(root: str) -> frozenset[str]:
    if not re.fullmatch(r"\w+", root):
        return frozenset()
    files = (config_folder() / root).rglob("*.yaml")
    return frozenset(name for file in files for name in _TARGET_LINE.findall(file.read_text(encoding="utf-8")))


def is_trusted(target: Any, trusted: Sequence[str]) -> bool:
    """Return whether a class is one of the trusted names, or is defined in a trusted module or package.

    `my_package.os.system` begins with `my_package` and is none of its own.
    """
    if not _is_name(target):
        return False
    return any(target == name or (target.startswith(f"{name}.") and _is_of(name, target)) for name in trusted)


def _is_of(package: str, target: str) -> bool:
    """Told from sources, since importing is what is asked about."""
    from headtohead.config.schema.source_code import module_path, origin_of, star_sources

    parts = target.split(".")
    known = (end for end in range(len(parts) - 1, 0, -1) if module_path(".".join(parts[:end])) is not None)
    end = next(known, 0)
    module, name = ".".join(parts[:end]), parts[end] if end else ""
    origin = origin_of(module, name)
    sources = star_sources(module) if origin is None and name not in sys.stdlib_module_names else [origin or ""]
    return bool(sources) and {source.partition(".")[0] for source in sources} == {package.partition(".")[0]}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _DOTTED.fullmatch(value) is not None


def _dotted(names: Iterable[str], source: str) -> tuple[str, ...]:
    trusted = tuple(names)
    for name in trusted:
        if not _is_name(name):
            raise ConfigurationError(
                f"{source} {show(name)} is refused: name a package, a module or a class, such as my_package.Model"
            )
    return trusted


def _settings() -> Path:
    from headtohead.records.signatures import settings_folder

    return settings_folder() / SETTINGS


def _trusted_in_settings() -> tuple[str, ...]:
    file = _settings()
    try:
        content = read_yaml(file)
    except OSError:
        return ()
    listed = content.get("trusted", []) if isinstance(content, Mapping) else None
    if not isinstance(listed, list):
        raise ConfigurationError(f"{file} is refused: write a list of names, `trusted: [my_package]`")
    return _dotted(listed, f"{file}: trusted")


def _check_choices(choices: Any, file: Path) -> None:
    """They are composed again, and a path among them would compose somebody's file."""
    if choices is None:
        return
    if not isinstance(choices, Mapping):
        raise ConfigurationError(f"choices={show(choices)} in {file} is refused: it must name a choice for each group")
    for group, choice in choices.items():
        plain = isinstance(group, str) and _GROUP.fullmatch(group) and ".." not in group
        if not plain or not (choice is None or (isinstance(choice, str | int) and _CHOICE.fullmatch(str(choice)))):
            raise ConfigurationError(f"choices.{group}={show(choice)} in {file} is refused: it names no choice")


def _refusal(path: str, name: Any, file: str) -> str:
    if not _is_name(name):
        return f"{path}={show(name)} in {file} is refused: it must name a class, package.module.Class"
    return (
        f"{path}={name} in {file} is not one of the choices that come with Head to Head, and to make it is to run its "
        f"code: if you trust it and whoever made this run, add --trust {name}, or write `trusted: [{name}]` into "
        f"{_settings()}"
    )
