"""From an annotation in a source file to the kind of value it stands for."""

from __future__ import annotations

import ast

from headtohead.building.kinds import (
    Anything,
    Either,
    Flag,
    Kind,
    ListOf,
    MappingOf,
    Null,
    Number,
    OneOf,
    Part,
    Record,
    Text,
    Whole,
    narrowed,
)
from headtohead.building.sources import find, is_dataclass
from headtohead.ranges import Filled, Range

_PLAIN: dict[str, Kind] = {
    "int": Whole(),
    "float": Number(),
    "bool": Flag(),
    "str": Text(),
    "Path": Text(),
    "None": Null(),
    "Any": Anything(),
    "object": Anything(),
    "Callable": Part(),
    "list": ListOf(Anything()),
    "tuple": ListOf(Anything()),
    "Sequence": ListOf(Anything()),
    "dict": MappingOf(Anything()),
    "Mapping": MappingOf(Anything()),
}


def kind_of(module: str, annotation: ast.expr | None) -> Kind:
    """The kind that an annotation, written in this module, asks for."""
    return Anything() if annotation is None else _read(module, annotation)


def _read(module: str, node: ast.expr) -> Kind:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return _read(module, ast.parse(node.value, mode="eval").body)
        return Null()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either(module, [node.left, node.right])
    if isinstance(node, ast.Subscript):
        return _subscript(module, node)
    if isinstance(node, ast.Attribute):
        return _PLAIN.get(node.attr, Part())
    return _named(module, node.id) if isinstance(node, ast.Name) else Anything()


def _named(module: str, name: str) -> Kind:
    if name in _PLAIN:
        return _PLAIN[name]
    located = find(module, name)
    if located is None:
        return Anything()
    if isinstance(located.node, ast.Assign | ast.AnnAssign) and located.node.value is not None:
        return _read(located.module, located.node.value)
    if isinstance(located.node, ast.ClassDef) and is_dataclass(located.node):
        return Record(f"{located.module}.{located.node.name}")
    return Part()


def _subscript(module: str, node: ast.Subscript) -> Kind:
    outer = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer == "Literal":
        return OneOf(tuple(ast.literal_eval(item) for item in inner))
    if outer == "Optional":
        return Either((_read(module, inner[0]), Null()))
    if outer == "Union":
        return _either(module, inner)
    if outer == "Final":
        return _read(module, inner[0])
    if outer == "Annotated":
        kind = _read(module, inner[0])
        for limit in map(_limit, inner[1:]):
            kind = kind if limit is None else narrowed(kind, limit)
        return kind
    if outer in ("list", "Sequence", "Iterable"):
        return ListOf(_read(module, inner[0]))
    if outer == "tuple":
        if isinstance(inner[-1], ast.Constant) and inner[-1].value is Ellipsis:
            return ListOf(_read(module, inner[0]))
        kinds = tuple(_read(module, item) for item in inner)
        return ListOf(Anything(), items=kinds)
    if outer in ("dict", "Mapping"):
        return MappingOf(_read(module, inner[-1]))
    return Part() if outer == "Callable" else Anything()


def _either(module: str, nodes: list[ast.expr]) -> Kind:
    kinds: list[Kind] = []
    for node in nodes:
        kind = _read(module, node)
        kinds += kind.kinds if isinstance(kind, Either) else (kind,)
    return Either(tuple(kinds))


def _limit(node: ast.expr) -> Range | Filled | None:
    """None for what else may stand in an annotation."""
    name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in ("Range", "Filled"):
        return None
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
    return Range(*map(ast.literal_eval, node.args), **given) if name == "Range" else Filled()
