"""A JSON schema of the YAML files in `conf/`, so that an editor completes and checks them while they are typed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

from headtohead.config.compose.choices import choices, groups
from headtohead.config.schema.key_checks import NODES, ROOT_FIELDS, ROOT_NODES, fields_of, record_fields
from headtohead.config.schema.meanings import meanings_of, record_meanings
from headtohead.config.schema.value_kinds import (
    BoolKind,
    Either,
    FieldsOf,
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
)
from headtohead.ranges import Range

Schema = dict[str, Any]
_REFERENCE: Schema = {"type": "string", "pattern": r"\$\{"}
"""A value that is looked up elsewhere, `${model.d_model}`, may stand for any other."""
_ALWAYS: Schema = {
    "_target_": {"type": "string", "description": "the class, package.module.Class"},
    "_partial_": {"type": "boolean"},
    "defaults": {"type": "array", "description": "choices that this file begins with"},
}


def json_schema(study_fields: Mapping[str, Kind]) -> Schema:
    """Return the schema of a file of any kind: a study's, that of a choice with a class, or a run's (an experiment) and
    of choices that say what differs from another."""
    nodes = {group: _node(group) for group in groups()}
    run = {name: schema_of(kind) for name, kind in ROOT_FIELDS.items()}
    run |= {name: _ref(name) if name in nodes else {"type": "object"} for name in (*NODES, *ROOT_NODES)}
    study = {name: schema_of(kind) for name, kind in study_fields.items()}
    fields: dict[str, list[Schema]] = {}
    for node in nodes.values():
        for name, field in node["properties"].items():
            fields.setdefault(name, []).append(field)
    whole = {**{name: {"anyOf": several} for name, several in fields.items()}, **run, **_ALWAYS}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A YAML file of Head to Head",
        "type": ["object", "null"],
        "if": {"required": ["question"]},
        "then": {"properties": study, "additionalProperties": False},
        "else": {
            "if": {"required": ["_target_"]},
            "then": {"allOf": _by_class()},
            "else": {"properties": whole, "additionalProperties": False},
        },
        "definitions": {group.replace("/", "."): node for group, node in nodes.items()},
    }


def _ref(group: str) -> Schema:
    return {"$ref": f"#/definitions/{group.replace('/', '.')}"}


def _node(group: str) -> Schema:
    """Return what a group may hold in the file of a run: the fields of any of its choices."""
    by_key: dict[str, list[tuple[Schema, dict[str, str]]]] = {}
    known = groups()
    for target in _targets(group):
        fields, meanings = fields_of(group, {"_target_": target}), meanings_of(group, target)
        for name, kind in (fields.kinds if fields is not None else {}).items():
            below = f"{group}/{name}"
            one = _ref(below) if below in known and _takes_part(kind) else schema_of(kind)
            entries = by_key.setdefault(name, [])
            of_classes = next((named for schema, named in entries if schema == one), None)
            if of_classes is None:
                entries.append((one, of_classes := {}))
            of_classes.setdefault(meanings.get(name, ""), target.rpartition(".")[2])
    described = {
        name: [_with_meaning(schema, _by_class_name(named)) for schema, named in entries]
        for name, entries in by_key.items()
    }
    properties = {name: one[0] if len(one) == 1 else {"anyOf": one} for name, one in described.items()}
    return {
        "type": ["object", "string", "null"],
        "properties": {**properties, **_ALWAYS},
        "additionalProperties": not by_key,
    }


def _by_class_name(meanings: Mapping[str, str]) -> str:
    """Return the one meaning of a field, or each behind the first class that has it."""
    if len(meanings) == 1:
        return next(iter(meanings))
    return "\n".join(f"{name}: {meaning}" for meaning, name in meanings.items() if meaning)


def _targets(group: str) -> list[str]:
    """Return the classes that choices of a group name, each once."""
    return list(dict.fromkeys(choice.target for choice in choices(group) if choice.target))


def _by_class() -> list[Schema]:
    """Return what a choice's file may hold, by the class that it names."""
    conditions = {}
    for group in groups():
        for target in _targets(group):
            fields = fields_of(group, {"_target_": target})
            if fields is None or target in conditions:
                continue
            names = {"enum": [*fields.kinds, *_ALWAYS]}
            properties = _described(fields.kinds, meanings_of(group, target))
            conditions[target] = {
                "if": {"properties": {"_target_": {"const": target}}, "required": ["_target_"]},
                "then": {"propertyNames": names, "properties": properties},
            }
    return list(conditions.values())


def _described(kinds: Mapping[str, Kind], meanings: Mapping[str, str]) -> Schema:
    """Return the schemas of fields, each with its meaning."""
    return {name: _with_meaning(schema_of(kind), meanings.get(name, "")) for name, kind in kinds.items()}


def _with_meaning(schema: Schema, meaning: str) -> Schema:
    """Return a schema with a description in front of its own; one that refers to another may only wrap it."""
    if not meaning:
        return schema
    if "$ref" in schema:
        return {"allOf": [schema], "description": meaning}
    own = schema.get("description")
    return {**schema, "description": f"{meaning} ({own})" if own else meaning}


def _takes_part(kind: Kind) -> bool:
    return isinstance(kind, PartKind) or (isinstance(kind, Either) and any(map(_takes_part, kind.kinds)))


@singledispatch
def schema_of(kind: Kind) -> Schema:
    """Return the schema of the values of one kind; of one that is described only in words, its words."""
    return {"description": kind.wants()}


def _or_reference(schema: Schema) -> Schema:
    return {"anyOf": [schema, _REFERENCE]}


@schema_of.register
def _(kind: NullKind) -> Schema:
    del kind
    return {"type": "null"}


@schema_of.register
def _(kind: BoolKind) -> Schema:
    del kind
    return _or_reference({"type": "boolean"})


@schema_of.register
def _(kind: WholeNumber) -> Schema:
    return _or_reference({"type": "integer", **_limits(kind.range)})


@schema_of.register
def _(kind: NumberKind) -> Schema:
    return _or_reference({"type": "number", **_limits(kind.range)})


@schema_of.register
def _(kind: TextKind) -> Schema:
    return {"type": ["string", "integer"], **({"pattern": r"\S"} if kind.is_filled else {})}


@schema_of.register
def _(kind: OneOf) -> Schema:
    return _or_reference({"enum": list(kind.values)})


@schema_of.register
def _(kind: Either) -> Schema:
    return {"anyOf": [schema_of(each) for each in kind.kinds]}


@schema_of.register
def _(kind: ListOf) -> Schema:
    items: Schema | Sequence[Schema] = [schema_of(each) for each in kind.items] if kind.items else schema_of(kind.item)
    length = {"minItems": len(kind.items), "maxItems": len(kind.items)} if kind.items else {}
    return _or_reference({"type": "array", "items": items, **length, **({"minItems": 1} if kind.is_filled else {})})


@schema_of.register
def _(kind: MappingOf) -> Schema:
    return {"type": "object", "additionalProperties": schema_of(kind.item)}


@schema_of.register
def _(kind: PartKind) -> Schema:
    del kind
    return {"type": "object", "properties": _ALWAYS}


@schema_of.register
def _(kind: RecordKind) -> Schema:
    fields = record_fields(kind.target)
    if fields is None:
        return {"type": "object"}
    properties = _described(fields.kinds, record_meanings(kind.target))
    return {
        "type": "object",
        "properties": {**properties, "_target_": {"type": "string"}},
        "additionalProperties": False,
    }


@schema_of.register
def _(kind: FieldsOf) -> Schema:
    properties = {name: schema_of(each) for name, each in kind.fields.items()}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_ONLY: Mapping[str | None, Schema] = {
    None: {},
    "odd": {"not": {"multipleOf": 2}},
    "even": {"multipleOf": 2},
    "powers of two": {"enum": [2**power for power in range(31)]},
}


def _limits(range_: Range) -> Schema:
    """Return the ends of a range that it has."""
    ends = {
        "exclusiveMinimum" if range_.above else "minimum": range_.low,
        "exclusiveMaximum" if range_.below else "maximum": range_.high,
    }
    return {**{name: end for name, end in ends.items() if math.isfinite(end)}, **_ONLY[range_.only]}
