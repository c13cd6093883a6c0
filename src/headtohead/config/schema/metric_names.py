"""The names of the metrics that a task measures, from its source text: no task is imported to check a word."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headtohead.config.schema.source_code import LocatedDefinition, bases, find, find_target

_FIELD = "metrics"


class _UnknownMetricError(Exception):
    """The source makes them in a way that only running it would tell."""


def metric_names(target: str) -> tuple[str, ...]:
    """Return those of which more or less is better; empty where the source does not tell them."""
    located = find_target(target)
    if located is None:
        return ()
    try:
        return tuple(dict.fromkeys(_of_class(located)))
    except _UnknownMetricError:
        return ()


def _of_class(located: LocatedDefinition) -> Iterator[str]:
    """Return what the class, or the first of its bases that says it, names."""
    for base in bases(located):
        for item in base.node.body if isinstance(base.node, ast.ClassDef) else ():
            if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None and _assigns(item):
                yield from _names(item.value, base.module)
                return
    raise _UnknownMetricError


def _assigns(item: ast.Assign | ast.AnnAssign) -> bool:
    targets = item.targets if isinstance(item, ast.Assign) else [item.target]
    return any(isinstance(target, ast.Name) and target.id == _FIELD for target in targets)


def _names(node: ast.expr, module: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(name)):
            yield name
        case ast.Tuple(elts=items) | ast.List(elts=items):
            for item in items:
                yield from _names(item, module)
        case ast.Starred(value=inner):
            yield from _names(inner, module)
        case ast.Name(id=name):
            located = _located(module, name)
            if not isinstance(located.node, ast.Assign | ast.AnnAssign) or located.node.value is None:
                raise _UnknownMetricError
            yield from _names(located.node.value, located.module)
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if attribute == _FIELD:
            yield from _of_class(_located(module, owner))
        case ast.Call(func=ast.Name(id="replace"), args=[original, *_]):
            yield from _names(original, module)
        case ast.Call(func=ast.Name(id="Metric"), keywords=keywords):
            yield from _of_metric({keyword.arg: keyword.value for keyword in keywords})
        case _:
            raise _UnknownMetricError


def _of_metric(fields: dict[str | None, ast.expr]) -> Iterator[str]:
    """Return the name that a Metric is made with; none of a setting, which has no direction."""
    match fields.get("name"), fields.get("direction"):
        case ast.Constant(value=str(name)), ast.Constant(value=direction):
            if direction is not None:
                yield name
        case _:
            raise _UnknownMetricError


def _located(module: str, name: str) -> LocatedDefinition:
    located = find(module, name)
    if located is None:
        raise _UnknownMetricError
    return located
