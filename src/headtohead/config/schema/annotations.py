"""Convert an annotation in a source file into the kind of value it stands for."""

from __future__ import annotations

import ast

from headtohead.config.schema.source_code import find, is_dataclass
from headtohead.config.schema.value_kinds import (
    AnyKind,
    BoolKind,
    Either,
    Kind,
    ListOf,
    MappingOf,
    NullKind,
    NumberKind,
    OneOf,
    PartKind,
    RecordKind,
    TextKind,
    WholeNumber,
    narrowed,
)
from headtohead.ranges import Filled, Range

_PLAIN: dict[str, Kind] = {
    "int": WholeNumber(),
    "float": NumberKind(),
    "bool": BoolKind(),
    "str": TextKind(),
    "Path": TextKind(),
    "None": NullKind(),
    "Any": AnyKind(),
    "object": AnyKind(),
    "Callable": PartKind(),
    "list": ListOf(AnyKind()),
    "tuple": ListOf(AnyKind()),
    "Sequence": ListOf(AnyKind()),
    "dict": MappingOf(AnyKind()),
    "Mapping": MappingOf(AnyKind()),
}


def kind_of(module: str, annotation: ast.expr | None) -> Kind:
    """Return the kind that an annotation, written in this module, asks for."""
    return AnyKind() if annotation is None else _read(module, annotation)


def _read(module: str, node: ast.expr) -> Kind:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return _read(module, ast.parse(node.value, mode="eval").body)
        return NullKind()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either(module, [node.left, node.right])
    if isinstance(node, ast.Subscript):
        return _subscript(module, node)
    if isinstance(node, ast.Attribute):
        return _PLAIN.get(node.attr, PartKind())
    return _named(module, node.id) if isinstance(node, ast.Name) else AnyKind()


def _named(module: str, name: str) -> Kind:
    if name in _PLAIN:
        return _PLAIN[name]
    located = find(module, name)
    if located is None:
        return AnyKind()
    if isinstance(located.node, ast.Assign | ast.AnnAssign) and located.node.value is not None:
        return _read(located.module, located.node.value)
    if isinstance(located.node, ast.ClassDef) and is_dataclass(located.node):
        return RecordKind(f"{located.module}.{located.node.name}")
    return PartKind()


def _subscript(module: str, node: ast.Subscript) -> Kind:
    outer = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer == "Literal":
        return OneOf(tuple(ast.literal_eval(item) for item in inner))
    if outer == "Optional":
        return Either((_read(module, inner[0]), NullKind()))
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
        return ListOf(AnyKind(), items=kinds)
    if outer in ("dict", "Mapping"):
        return MappingOf(_read(module, inner[-1]))
    return PartKind() if outer == "Callable" else AnyKind()


def _either(module: str, nodes: list[ast.expr]) -> Kind:
    kinds: list[Kind] = []
    for node in nodes:
        kind = _read(module, node)
        kinds += kind.kinds if isinstance(kind, Either) else (kind,)
    return Either(tuple(kinds))


def _limit(node: ast.expr) -> Range | Filled | None:
    """Return None for what else may stand in an annotation."""
    name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in ("Range", "Filled"):
        return None
    keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
    return Range(*map(ast.literal_eval, node.args), **keywords) if name == "Range" else Filled()
