"""Write a page for each group of choices: its choices, and every field with its type, range, default and meaning.

All of it is read by the functions that `h2h list`, the checks of a configuration and `h2h schema` use.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any

from headtohead.config.compose.choices import Choice, choices, config_folders, groups
from headtohead.config.compose.replacements import file_of
from headtohead.config.schema.key_checks import KnownKeys, fields_of, record_fields
from headtohead.config.schema.meanings import lineage, meanings_of, record_meanings
from headtohead.config.schema.slots import slot_of
from headtohead.config.schema.source_code import arguments
from headtohead.config.schema.value_kinds import Either, Kind, ListOf, NumberKind, OneOf, RecordKind, WholeNumber
from headtohead.files.safe_read import read_text, read_yaml
from headtohead.ranges import Range
from page_parts import code, slug, table
from study_headers import linked

EXPERIMENT = "experiment"
_HYDRA = ("_target_", "_partial_", "about")


def pages() -> dict[str, str]:
    """Return the pages by their names, an overview first."""
    named = {page_name(group): "\n".join(_page(group)) for group in groups() if group != EXPERIMENT}
    return {"groups": "\n".join(_overview(list(named))), **named}


def page_name(group: str) -> str:
    """Return the name of a group's page."""
    return group.replace("/", "_")


def _overview(names: list[str]) -> Iterator[str]:
    yield "# Configuration: every group and field"
    yield ""
    yield "A run is composed of one choice from each group, `h2h train GROUP=CHOICE`, and a choice's fields are set"
    yield "by `h2h train GROUP.FIELD=VALUE`. Types, ranges and defaults come from the constructors that the choices"
    yield "name, by the code that refuses a wrong value. `h2h list GROUP` shows the choices on a terminal, `h2h"
    yield "schema` gives the same to an editor."
    yield ""
    shown = [group for group in groups() if group != EXPERIMENT]
    rows = [(f"[`{group}`]({page_name(group)}.md)", ", ".join(code(one.name) for one in choices(group)))
            for group in shown]  # fmt: skip
    yield from table(("group", "choices"), ((name, _shortened(listed)) for name, listed in rows))
    yield "```{toctree}"
    yield ":hidden:"
    yield from names
    yield "```"


def _shortened(listed: str, most: int = 8) -> str:
    parts = listed.split(", ")
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def _page(group: str) -> Iterator[str]:
    own = choices(group)
    by_class: dict[str, list[Choice]] = {}
    for choice in own:
        if choice.target:
            by_class.setdefault(choice.target, []).append(choice)
    yield f"# `{group}`"
    yield ""
    if passed := sorted(slot_of(group).passed):
        names = ", ".join(map(code, passed))
        yield f"{slot_of(group).filled_by.capitalize()} itself gives {names}: no choice sets them."
        yield ""
    yield from table(
        ("choice", "what it is", "made of"), ((code(one.name), linked(one.description), _made_of(one)) for one in own)
    )
    for target, sharing in by_class.items():
        yield from _fields(group, target, sharing)


def _made_of(choice: Choice) -> str:
    """Return the class of a choice, or for one that starts from another choice what it changes."""
    if choice.target:
        name = choice.target.rpartition(".")[2]
        return f"[`{name}`](#{slug(name)})"
    content = read_yaml(choice.path)
    fields = content if isinstance(content, dict) else {}
    start = next((entry for entry in fields.get("defaults") or () if isinstance(entry, str) and entry != "_self_"), "")
    changed = ", ".join(code(f"{key}: {_value(value)}") for key, value in fields.items() if key != "defaults")
    return " with ".join(part for part in (code(start), changed) if part) or "nothing"


def _fields(group: str, target: str, sharing: list[Choice]) -> Iterator[str]:
    first, *others = sorted(sharing, key=lambda choice: (len(lineage(choice)), choice.name))
    known = fields_of(group, {"_target_": target})
    yield f"## {target.rpartition('.')[2]}"
    yield ""
    yield f"`{target}`, for {', '.join(code(one.name) for one in sharing)}."
    yield ""
    if known is None:
        yield "It takes whatever its own documentation says."
        yield ""
        return
    written = _written_fields(first)
    rows = list(_rows(known, written, _defaults(target), meanings_of(group, target)))
    if not rows:
        yield "It has no fields."
        yield ""
        return
    yield from table(("field", "type", "default", "meaning"), rows)
    for other in others:
        if line := _differences(other, written):
            yield f"- `{other.name}`: {line}"
    yield ""


def _rows(
    known: KnownKeys, written: Mapping[str, Any], defaults: Mapping[str, str], meanings: Mapping[str, str]
) -> Iterator[tuple[str, str, str, str]]:
    for name, kind in known.kinds.items():
        default = _value(written[name]) if name in written else defaults.get(name, "")
        filled = code(default) if default else "required" if name in known.required else "given by the run"
        yield code(name), in_words(kind), filled, linked(meanings.get(name, ""))
        if (record := _record_of(kind)) is not None:
            inner, theirs = record_fields(record.target), _defaults(record.target)
            meaning_of = record_meanings(record.target)
            for field, field_kind in inner.kinds.items() if inner is not None else ():
                default = code(theirs.get(field, ""))
                yield code(f"{name}.{field}"), in_words(field_kind), default, linked(meaning_of.get(field, ""))


def _written_fields(choice: Choice) -> dict[str, Any]:
    """Return the fields that a choice's file and those that it starts from write; a part is the name of its choice."""
    written: dict[str, Any] = {}
    for each in lineage(choice):
        content = read_yaml(each.path)
        fields = content if isinstance(content, dict) else {}
        for entry in fields.get("defaults") or ():
            for key, name in (entry if isinstance(entry, dict) else {}).items():
                _write_part(written, choice.group, key, name)
        for key, value in fields.items():
            below = written.get(key)
            if isinstance(below, str) and isinstance(value, dict):
                written[key] = f"{below} with {_value(value)}"
            else:
                written[key] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    return {key: value for key, value in written.items() if key not in (*_HYDRA, "defaults")}


def _write_part(written: dict[str, Any], group: str, key: str, name: str | None) -> None:
    """Write the choice of one part below its field; or its fields, where it has none of its own, as sizes do."""
    path = file_of(f"{group}/{key}", name, config_folders()) if name else None
    if path is not None and read_text(path).startswith("# @package"):
        written |= read_yaml(path)
        return
    field, _, inner = (key.partition("@")[2] or key).partition(".")
    if inner:
        written[field] = {**(written.get(field) or {}), inner: name}
    else:
        written[field] = name


def _differences(choice: Choice, first: Mapping[str, Any]) -> str:
    own = _written_fields(choice)
    changed = {key: value for key, value in own.items() if first.get(key, object()) != value}
    return ", ".join(code(f"{key}: {_value(value)}") for key, value in changed.items() if not isinstance(value, dict))


def _defaults(target: str) -> dict[str, str]:
    """Return the defaults that a constructor's source states, as YAML writes them."""
    taken = arguments(target) or ()
    return {item.name: _written(item.default) for item in taken if item.default is not None}


def _written(default: ast.expr) -> str:
    try:
        return _value(ast.literal_eval(default))
    except ValueError:
        return ast.unparse(default)


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_value(entry)}' for key, entry in value.items() if key not in _HYDRA)}}}"
    return '""' if value == "" else str(value).replace("\n", "\\n")


def _record_of(kind: Kind) -> RecordKind | None:
    kinds = kind.kinds if isinstance(kind, Either) else (kind,)
    return next((item for item in kinds if isinstance(item, RecordKind)), None)


@singledispatch
def in_words(kind: Kind) -> str:
    """Return what values of a kind are, with their range."""
    return kind.wants()


@in_words.register
def _(kind: WholeNumber) -> str:
    return f"{kind.wants()}{_range(kind.range)}"


@in_words.register
def _(kind: NumberKind) -> str:
    return f"{kind.wants()}{_range(kind.range)}"


@in_words.register
def _(kind: Either) -> str:
    return ", or ".join(dict.fromkeys(map(in_words, kind.kinds)))


@in_words.register
def _(kind: ListOf) -> str:
    if kind.items:
        return f"a list of {len(kind.items)}: {', '.join(map(in_words, kind.items))}"
    return f"a list{' with at least one entry' if kind.is_filled else ''}, each of it {in_words(kind.item)}"


@in_words.register
def _(kind: OneOf) -> str:
    return " or ".join(code(str(value)) for value in kind.values)


def _range(limits: Range) -> str:
    """Return the range behind a kind: " from 1 to 64", and where an end is left out, its words."""
    if math.isinf(limits.low) and math.isinf(limits.high):
        return ""
    if math.isinf(limits.low) or math.isinf(limits.high) or limits.above or limits.below:
        return f" {limits.wants()}"
    return f" from {limits.low:,} to {limits.high:,}"
