"""Classes and functions as their source text tells them: parameters, defaults, class variables, without importing.

`import torch` costs seconds, and reading a constructor's signature with `ast` a few milliseconds; this is what makes a
refusal quick.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from itertools import zip_longest
from pathlib import Path
from typing import Any

from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class LocatedDefinition:
    """A top-level name of a module and the statement that defines it."""

    module: str
    node: ast.stmt


@dataclass(frozen=True)
class Argument:
    """One parameter of a constructor: where its annotation is to be read, and its default as an expression."""

    name: str
    module: str
    annotation: ast.expr | None
    default: ast.expr | None
    line: int
    """The last line of the parameter in its module's source, which may end with a comment."""
    documentation: str = ""
    """The string below a dataclass field."""


@lru_cache(maxsize=512)
def module_path(module: str) -> Path | None:
    """Return the source file of a module, found without importing it or its parents."""
    search: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:end]), search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or [])
    origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


def _find_spec(name: str, search: Sequence[str] | None) -> ModuleSpec | None:
    if search is None and name == "headtohead":
        package = Path(__file__).resolve().parents[2]
        return PathFinder.find_spec(name, [str(package.parent)])
    for finder in sys.meta_path:
        spec = finder.find_spec(name, search)
        if spec is not None:
            return spec
    return None


@lru_cache(maxsize=512)
def parse(module: str) -> dict[str, LocatedDefinition]:
    """Return the top-level definitions, assignments and imported names of a module."""
    path = module_path(module)
    if path is None:
        return {}
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    definitions: dict[str, LocatedDefinition] = {}
    for node in _top_level(_statements(path)):
        for name in _names(node):
            definitions[name] = LocatedDefinition(package, node)
    return definitions


def _statements(path: Path) -> list[ast.stmt]:
    """Return the statements of a file, which may be one that a user is still writing."""
    try:
        return ast.parse(path.read_text(encoding="utf-8")).body
    except (SyntaxError, ValueError) as error:  # no UTF-8, or bytes that no source has
        where = f", line {error.lineno}," if isinstance(error, SyntaxError) else ""
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"{path}{where} is not Python ({why}): correct the file") from error


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those under `if` (TYPE_CHECKING), `try` and its `else` included."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _top_level([*node.body, *(node.orelse if isinstance(node, ast.Try) else ())])
        else:
            yield node


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, Definition):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)


def find(module: str, name: str, depth: int = 0) -> LocatedDefinition | None:
    """Return the definition behind a name of a module, followed through `from ... import`."""
    located = parse(module).get(name)
    if located is None or depth > 8:
        return None
    if not isinstance(located.node, ast.ImportFrom):
        return LocatedDefinition(module, located.node)
    source = _imported_module(located.node, located.module)
    original = next(alias.name for alias in located.node.names if (alias.asname or alias.name) == name)
    return find(source, original, depth + 1)


def origin_of(module: str, name: str) -> str | None:
    """Return the module that defines a name of a module, or, where sources do not lead so far, the one it is
    imported from; None where the module's source does not name it."""
    if (origin := find(module, name)) is not None:
        return origin.module
    located = parse(module).get(name)
    if located is None or not isinstance(located.node, ast.ImportFrom):
        return None
    return _imported_module(located.node, located.module)


def star_sources(module: str) -> list[str]:
    """The modules from which a module takes all names at once."""
    path = module_path(module)
    if path is None:
        return []
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    nodes = _top_level(_statements(path))
    stars = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    return [_imported_module(node, package) for node in stars]


def _imported_module(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def find_target(target: str) -> LocatedDefinition | None:
    """Return the class or function that a `_target_` names."""
    module, _, name = target.rpartition(".")
    located = find(module, name) if module else None
    return located if located and isinstance(located.node, Definition) else None


def may_be_made_when_imported(target: str) -> bool:
    """Return whether a `_target_` of another package may well exist though no source defines it: one of the names that
    a module imports by a star, or a method of a class (`package.Class.from_config`)."""
    module, _, name = target.rpartition(".")
    if target.partition(".")[0] == "headtohead":
        return False
    if module_path(module) is not None:
        return "*" in parse(module) and name not in parse(module)
    package, _, owner = module.rpartition(".")
    return bool(package) and module_path(package) is not None and (owner in parse(package) or "*" in parse(package))


def bases(located: LocatedDefinition) -> Iterator[LocatedDefinition]:
    """A class and its bases that have readable sources, nearest first."""
    yield located
    if isinstance(located.node, ast.ClassDef):
        for base in located.node.bases:
            expression = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(expression, ast.Name) and (parent := find(located.module, expression.id)) is not None:
                yield from bases(parent)


def is_dataclass(node: ast.ClassDef) -> bool:
    decorators = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return any(_last_name(decorator) == "dataclass" for decorator in decorators)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@lru_cache(maxsize=512)
def arguments(target: str) -> tuple[Argument, ...] | None:
    """Return the arguments of a target in a configuration: its parameters, with the fields of a field group instead of
    the parameter that takes it; None if its source does not say (`*args`, `**kwargs`, a compiled module)."""
    taken = _parameters(target)
    return None if taken is None else tuple(_without_groups(taken))


@lru_cache(maxsize=512)
def field_groups(target: str) -> dict[str, str]:
    """Return the record of each parameter that takes a field group, `package.module.Class`."""
    groups = {item.name: _group_of(item) for item in _parameters(target) or ()}
    return {name: group for name, group in groups.items() if group is not None}


def _without_groups(taken: Sequence[Argument]) -> Iterator[Argument]:
    for item in taken:
        group = _group_of(item)
        if group is None:
            yield item
            continue
        own = _defaults_in(item.default)
        for field in arguments(group) or ():
            yield replace(field, default=own[field.name]) if field.name in own else field


def _group_of(argument: Argument) -> str | None:
    """Return the record that a parameter's annotation names, where it is a field group."""
    if not isinstance(argument.annotation, ast.Name):
        return None
    located = find(argument.module, argument.annotation.id)
    if located is None or not isinstance(located.node, ast.ClassDef) or not is_dataclass(located.node):
        return None
    is_group = any(getattr(base.node, "name", "") == FieldGroup.__name__ for base in bases(located))
    return f"{located.module}.{located.node.name}" if is_group else None


def _defaults_in(default: ast.expr | None) -> dict[str, ast.expr]:
    """Return the fields that a parameter's default, `Record(field=value)`, sets."""
    keywords = default.keywords if isinstance(default, ast.Call) else []
    return {keyword.arg: keyword.value for keyword in keywords if keyword.arg}


@lru_cache(maxsize=512)
def _parameters(target: str) -> tuple[Argument, ...] | None:
    located = find_target(target)
    if located is None:
        return None
    if isinstance(located.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return _function_arguments(located, located.node, skip=0)
    for base in bases(located):
        node = base.node
        if not isinstance(node, ast.ClassDef):
            continue
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                return _function_arguments(base, item, skip=1)
        if is_dataclass(node):
            return _dataclass_arguments(located)
    return ()


def _function_arguments(
    located: LocatedDefinition, node: ast.FunctionDef | ast.AsyncFunctionDef, skip: int
) -> tuple[Argument, ...] | None:
    taken = node.args
    if taken.kwarg is not None:
        return None
    positional = [*taken.posonlyargs, *taken.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(taken.defaults))
    pairs = list(zip(positional, [*missing, *taken.defaults], strict=True))[skip:]
    pairs += list(zip(taken.kwonlyargs, taken.kw_defaults, strict=True))
    return tuple(_parameter(located.module, item, default) for item, default in pairs)


def _parameter(module: str, item: ast.arg, default: ast.expr | None) -> Argument:
    last = (default if default is not None else item).end_lineno
    return Argument(item.arg, module, item.annotation, default, last or item.lineno)


def _dataclass_arguments(located: LocatedDefinition) -> tuple[Argument, ...]:
    fields: dict[str, Argument] = {}
    for base in reversed(list(bases(located))):
        body = base.node.body if isinstance(base.node, ast.ClassDef) else []
        for item, below in zip_longest(body, body[1:]):
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not _is_class_variable(item):
                name, default = item.target.id, _field_default(item.value)
                line = item.end_lineno or item.lineno
                fields[name] = Argument(name, base.module, item.annotation, default, line, _string(below))
    return tuple(fields.values())


def _string(statement: ast.stmt | None) -> str:
    """Return the text of a statement that is nothing but a string."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _is_class_variable(item: ast.AnnAssign) -> bool:
    annotation = item.annotation
    return _last_name(annotation.value if isinstance(annotation, ast.Subscript) else annotation) == "ClassVar"


def _field_default(value: ast.expr | None) -> ast.expr | None:
    """`field(default_factory=list)` counts as a default that cannot be read."""
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "field":
        keywords = {keyword.arg: keyword.value for keyword in value.keywords}
        return keywords.get("default") or keywords.get("default_factory")
    return value


@lru_cache(maxsize=2048)
def class_value(target: str, name: str) -> Any:
    """Return a class variable's literal value, looked for in the class and its bases; None where it is not written
    down."""
    located = find_target(target)
    for base in bases(located) if located else ():
        for item in base.node.body if isinstance(base.node, ast.ClassDef) else ():
            if isinstance(item, ast.AnnAssign) and getattr(item.target, "id", "") == name and item.value is not None:
                return ast.literal_eval(item.value)
            if isinstance(item, ast.Assign) and any(getattr(t, "id", "") == name for t in item.targets):
                return ast.literal_eval(item.value)
    return None
