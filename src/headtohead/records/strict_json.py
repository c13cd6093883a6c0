"""Dataclasses to JSON and back, strictly: every key known, every type right, every number valid JSON."""

from __future__ import annotations

import math
import reprlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from headtohead.errors import UsageError

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The spelling of numbers that JSON lacks; read back as numbers in every field that is declared a number."""

_SHOWN = 40
_TOO_LARGE = 10**100
_UNIONS = (Union, types.UnionType)
_Decoder = Callable[[object, str], Any]
"""Takes a value and the path of it, for errors."""


class RecordError(UsageError):
    """A record that cannot be read or written: the message names the field, the value and the fix."""


def shortened(value: object) -> str:
    """Return a value as an error shows it: its beginning, whatever somebody put there."""
    return reprlib.repr(value)


def encode(value: Any, where: str) -> Any:
    """Plain JSON values; `where` is the path of the value, for errors."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _encode_float(float(value))
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name), f"{where}.{f.name}") for f in _stored(type(value))}
    if isinstance(value, Mapping):
        return {_key(key, where): encode(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [encode(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise RecordError(f"{where}: a {type(value).__name__} cannot be recorded; use numbers, text, lists or dictionaries")


def decode(kind: Any, value: object, where: str) -> Any:
    """Return a value of the annotated kind, or raise a RecordError that says where it does not fit."""
    return _decoder(kind)(value, where)


@cache
def _decoder(kind: Any) -> _Decoder:
    """Return what decodes values of a kind: annotations are taken apart once, and not for each of many records."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _as_it_is
    if is_dataclass(kind) and isinstance(kind, type):
        return partial(_decode_dataclass, kind)
    if origin in _UNIONS:
        return partial(_decode_union, arguments)
    if origin is Literal:
        return partial(_decode_literal, arguments)
    if origin is dict:
        return partial(_decode_mapping, kind)
    if origin in (list, tuple):
        return partial(_decode_sequence, kind)
    return partial(_decode_scalar, kind)


def _as_it_is(value: object, where: str) -> object:
    del where
    return value


def _decode_literal(choices: Sequence[object], value: object, where: str) -> object:
    if value in choices:
        return value
    raise RecordError(f"{where} is {shortened(value)}; choose from {', '.join(map(str, choices))}")


def _decode_mapping(kind: Any, value: object, where: str) -> object:
    if not isinstance(value, dict):
        return _decode_scalar(kind, value, where)
    item_kind = get_args(kind)[1]
    if item_kind in (Any, object):
        return dict(value)
    decoder = _decoder(item_kind)
    return {key: decoder(item, f"{where}.{key}") for key, item in value.items()}


def _decode_sequence(kind: Any, value: object, where: str) -> object:
    kinds = get_args(kind)
    is_list = get_origin(kind) is list
    any_number = is_list or kinds[-1] is Ellipsis
    if not isinstance(value, list) or not (any_number or len(kinds) == len(value)):
        return _decode_scalar(kind, value, where)
    each = [kinds[0]] * len(value) if any_number else kinds
    items = [_decoder(one)(item, f"{where}[{at}]") for at, (one, item) in enumerate(zip(each, value, strict=True))]
    return items if is_list else tuple(items)


def _stored(kind: type) -> list[Any]:
    return [f for f in fields(kind) if f.metadata.get("stored", True)]


def _encode_float(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int | float | bool) or key is None:  # YAML allows such keys, JSON does not
        return str(key)
    raise RecordError(f"{where}: the key {key!r} is a {type(key).__name__}; keys must be text")


def _decode_dataclass(kind: type, value: object, where: str) -> object:
    if not isinstance(value, dict):
        raise RecordError(f"{where} is {shortened(value)}; expected an object")
    decoders = _decoders(kind)
    if value.keys() != decoders.keys():
        unknown = sorted(value.keys() - decoders.keys())
        missing = [name for name in decoders if name not in value]
        sentences = [f"unknown {', '.join(name[:_SHOWN] for name in unknown[:5])}"] if unknown else []
        sentences += [f"missing {', '.join(missing)}"] if missing else []
        raise RecordError(f"{where}: {'; '.join(sentences)}. The fields are {', '.join(decoders)}")
    return kind(**{name: decoder(value[name], f"{where}.{name}") for name, decoder in decoders.items()})


@cache
def _decoders(kind: type) -> dict[str, _Decoder]:
    hints = get_type_hints(kind)
    return {one.name: _decoder(hints[one.name]) for one in _stored(kind)}


def _decode_union(options: Sequence[object], value: object, where: str) -> object:
    if value is None and type(None) in options:
        return None
    others = [option for option in options if option is not type(None)]
    for option in others[:-1]:
        try:
            return decode(option, value, where)
        except RecordError:
            continue
    return decode(others[-1], value, where)


def _decode_scalar(kind: Any, value: object, where: str) -> object:
    if kind is float:
        if isinstance(value, str) and value in NON_FINITE:
            return NON_FINITE[value]
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
            return float(value)
    elif kind is int and isinstance(value, int) and abs(value) >= _TOO_LARGE:
        pass
    elif isinstance(value, kind if isinstance(kind, type) else get_origin(kind)) and (
        kind is bool or not isinstance(value, bool)
    ):
        return value
    raise RecordError(f"{where} is {shortened(value)}; expected {getattr(kind, '__name__', kind)}")
