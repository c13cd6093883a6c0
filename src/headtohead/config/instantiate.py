"""Objects from the nodes of a configuration: the one place at which what a `_target_` names is imported and called.

Values are passed as they stand. Hydra would resolve references in them once more, so that a `${oc.env:...}` which a
record holds as text would become the reader's secret, and `${oc.create:...}` a node that nobody has checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from inspect import Parameter, isclass, signature
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate

from headtohead.config.errors import ConfigurationError, show
from headtohead.config.import_errors import import_refusal
from headtohead.config.run_config import Node
from headtohead.config.schema.source_code import arguments, field_groups
from headtohead.errors import UsageError

_TARGET = "_target_"
_OWN = "headtohead."
_HOW = frozenset({_TARGET, "_args_", "_partial_", "_recursive_", "_convert_"})


def make(node: Node, **passed: object) -> Any:
    """Call the constructor that a node names, and first those of the nodes in it; `passed` comes from its parent."""
    return make_at("", node, **passed)


def make_at(path: str, node: Node, /, **passed: object) -> Any:
    """Make a node whose fields are typed below this path, by which factories in it name what they refuse."""
    placed: list[object] = list(node.get("_args_") or ())
    values = {key: value for key, value in node.items() if key not in _HOW}
    if node.get("_recursive_") is not False:
        placed, values = _made(placed, ""), _made(values, path)
    constructor = target_of(node)
    values = _with_groups(node[_TARGET], constructor, {**values, **passed})
    if not node.get("_partial_"):
        return constructor(*placed, **values)
    if not path:
        return partial(constructor, *placed, **values)
    made = _Factory(constructor, *placed, **values)
    made.path, made.fields = path, frozenset(item.name for item in arguments(node[_TARGET]) or ())
    return made


_FIRST_FIELD = re.compile(r"(?P<name>[A-Za-z_]\w*)=")


class _Factory(partial[object]):
    """A constructor that waits for what its parent passes, and whose refusals name the field to type: one that begins
    with a field of the node begins with its path. Like any partial it is copied and pickled with its attributes."""

    path: str
    fields: frozenset[str]

    def __call__(self, /, *placed: object, **passed: object) -> object:
        try:
            return super().__call__(*placed, **passed)
        except UsageError as error:
            match = _FIRST_FIELD.match(str(error))
            if match is None or match["name"] not in self.fields:
                raise
            above = self.path.partition(".")[0] if match["name"] in passed else self.path
            raise ConfigurationError(f"{above}.{error}") from error


def target_of(node: Mapping[str, object]) -> Any:
    """Return the class or function that a node names."""
    target = node[_TARGET]
    if not isinstance(target, str) or not all(part.isidentifier() for part in target.split(".")):
        raise ConfigurationError(f"_target_={show(target)} is refused: it must name a class, package.module.Class")
    return _located(target)


def locate_own(node: object) -> None:
    """Import what the nodes of a configuration name in this package, so that processes forked later have it; whoever
    makes them says what is wrong with a name."""
    if isinstance(node, Mapping):
        target = node.get(_TARGET)
        if isinstance(target, str) and target.startswith(_OWN):
            with suppress(ImportError, AttributeError, ValueError, InstantiationException):
                _located(target)
        node = list(node.values())
    for item in node if isinstance(node, list | tuple) else ():
        locate_own(item)


def _with_groups(target: str, constructor: Callable[..., object], values: Mapping[str, object]) -> dict[str, object]:
    """The same values, those of a field group in its record."""
    gathered = dict(values)
    for name, group in field_groups(target).items():
        fields = [field.name for field in arguments(group) or () if field.name in gathered]
        own = {field: gathered.pop(field) for field in fields}
        default = _default_of(target, constructor, name)
        gathered[name] = _located(group)(**own) if default is Parameter.empty else replace(default, **own)
    return gathered


def _default_of(target: str, constructor: Callable[..., object], name: str) -> Any:
    """Return the default of a parameter that the source of `__init__` has, whatever `__new__` takes."""
    made_by = constructor.__init__ if isclass(constructor) else constructor
    taken = signature(made_by).parameters
    if name not in taken:
        raise ConfigurationError(
            f"{_TARGET}={target} is refused: a decorator hides the parameter {name} of its constructor; use "
            "functools.wraps in the decorator"
        )
    return taken[name].default


@lru_cache(maxsize=512)
def _located(target: str) -> Any:
    """Hydra finds it, and refuses what runs a program whatever it is called."""
    try:
        located: partial[Any] = instantiate({_TARGET: target, "_partial_": True})
    except InstantiationException as error:
        _refuse_faulty_file(target, error.__cause__)
        raise error.__cause__ or error from None
    return located.func


def _refuse_faulty_file(target: str, error: BaseException | None) -> None:
    """Raise ConfigurationError where the file that a target names is there and cannot be imported."""
    raised = None if error is None else error.__cause__
    if raised is None or (isinstance(raised, ModuleNotFoundError) and f"{target}.".startswith(f"{raised.name}.")):
        return
    raise import_refusal(f"{_TARGET}={target}", target.rpartition(".")[0], raised) from error


def _made(value: Any, path: str) -> Any:
    if isinstance(value, Mapping):
        below = {key: f"{path}.{key}" if path else "" for key in value}
        if _TARGET in value:
            return make_at(path, value)
        return {key: _made(item, below[key]) for key, item in value.items()}
    return [_made(item, "") for item in value] if isinstance(value, list | tuple) else value
