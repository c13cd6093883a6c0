"""The metrics that a task measures, by name and better direction, from its source text: no task is imported to check a
word."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import cast, get_args

from headtohead.config.run_config import RunConfig
from headtohead.config.schema.source_code import LocatedDefinition, bases, find, find_target
from headtohead.metrics import Direction, own_metric

_FIELD = "metrics"
_FIRST_FIELDS = ("name", "direction")
"""The fields of a Metric by their positions."""
_Named = tuple[str, Direction | None]


class _UnknownMetricError(Exception):
    """The source makes them in a way that only running it would tell."""


def metric_names(target: str) -> tuple[str, ...]:
    """Return those of which more or less is better; empty where the source does not tell them."""
    return tuple(name for name, direction in metric_directions(target).items() if direction is not None)


def metric_directions(target: str) -> dict[str, Direction | None]:
    """Return the better direction of each metric of a task, None for a setting; empty where the source does not tell
    them."""
    located = find_target(target)
    if located is None:
        return {}
    try:
        return dict(_of_class(located))
    except _UnknownMetricError:
        return {}


def better_direction(config: Mapping[str, object], name: str) -> Direction | None:
    """Return the better direction of a result, named with or without its stage and its cutoff: as a task of this
    project measures it, or as another one declares it; None where neither says it."""
    if _is_own_task(config):
        own = own_metric(name)
        return None if own is None else own.direction
    declared, plain = metric_directions(RunConfig(config).task_target), name.rpartition("/")[2]
    return declared.get(plain, declared.get(plain.partition("@")[0]))


def _is_own_task(config: Mapping[str, object]) -> bool:
    """Return whether the results are metrics of this project; those of another task may have any meaning."""
    return RunConfig(config).task_target.startswith("headtohead.tasks.")


def _of_class(located: LocatedDefinition) -> Iterator[_Named]:
    """Yield what the class, or the first of its bases that says it, names."""
    for base in bases(located):
        for item in base.node.body if isinstance(base.node, ast.ClassDef) else ():
            if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None and _assigns(item):
                yield from _names(item.value, base.module)
                return
    raise _UnknownMetricError


def _assigns(item: ast.Assign | ast.AnnAssign) -> bool:
    targets = item.targets if isinstance(item, ast.Assign) else [item.target]
    return any(isinstance(target, ast.Name) and target.id == _FIELD for target in targets)


def _names(node: ast.expr, module: str) -> Iterator[_Named]:
    match node:
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
        case ast.Call(func=ast.Name(id="replace"), args=[original], keywords=keywords):
            yield from (_replaced(*named, _by_name(keywords)) for named in _names(original, module))
        case ast.Call(func=ast.Name(id="Metric"), args=placed, keywords=keywords):
            yield _of_metric({**dict(zip(_FIRST_FIELDS, placed, strict=False)), **_by_name(keywords)})
        case _:
            raise _UnknownMetricError


def _by_name(keywords: Sequence[ast.keyword]) -> dict[str | None, ast.expr]:
    return {keyword.arg: keyword.value for keyword in keywords}


def _replaced(name: str, direction: Direction | None, fields: Mapping[str | None, ast.expr]) -> _Named:
    """Return the metric with what `replace` changes of it."""
    return _of_metric({"name": ast.Constant(name), "direction": ast.Constant(direction), **fields})


def _of_metric(fields: Mapping[str | None, ast.expr]) -> _Named:
    """Return the name that a Metric is made with, and its direction; a setting has none."""
    match fields.get("name"), fields.get("direction"):
        case ast.Constant(value=str(name)), ast.Constant(value=direction) if direction in (None, *get_args(Direction)):
            return name, cast(Direction | None, direction)
    raise _UnknownMetricError


def _located(module: str, name: str) -> LocatedDefinition:
    located = find(module, name)
    if located is None:
        raise _UnknownMetricError
    return located
