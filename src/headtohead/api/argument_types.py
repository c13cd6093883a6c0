"""Arguments of public functions are compared with their annotations where they are given: a text in the place of a list
would be read letter by letter, and a number would fail deep inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from reprlib import Repr
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from headtohead.config.errors import unknown
from headtohead.errors import UsageError
from headtohead.ranges import Range, range_of

_ANYTHING = (Any, object)
_TEXTS = (str, bytes)
_AS_THEY_ARE = (*_TEXTS, type, PathLike)
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_WORDS: dict[object, str] = {
    str: "a text", Path: "a path", int: "a whole number", float: "a number", bool: "True or False", NoneType: "None",
    type: "a class",
}  # fmt: skip
_KINDS: dict[object, type] = {Path: PathLike, int: Integral, float: Real}
_MANY: dict[object, str] = {str: "texts", Path: "paths", int: "whole numbers", float: "numbers"}


def checked_arguments(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments as Python's own values; raise UsageError for the first one that has another type, is not
    a choice, or is out of range. Those that are too many or missing are left to the call itself."""
    try:
        bound = signature(function).bind(*args, **kwargs)
    except TypeError:
        return tuple(args), dict(kwargs)
    types = argument_types(function)
    bound.arguments |= {
        name: own_values(bound.arguments[name], types[name]) for name in types if name in bound.arguments
    }
    check_types(function.__name__, bound.arguments, types)
    _check_choices(bound.arguments, types)
    _check_ranges(bound.arguments, argument_ranges(function))
    return bound.args, bound.kwargs


def own_values(value: object, hint: object) -> object:
    """Return an argument in Python's own types where they are what is taken: numbers of NumPy, and in place of a list
    whatever else can be gone through, a column of a frame or a generator; of a run its folder."""
    if isinstance(value, PathLike) and not isinstance(value, Path):
        return Path(value)
    if getattr(value, "shape", None) == () and callable(item := getattr(value, "item", None)):
        return float(str(value)) if isinstance(value, Real) and not isinstance(value, Integral) else item()
    if isinstance(value, _AS_THEY_ARE) or not isinstance(value, Iterable) or not takes_lists(hint):
        return value
    if isinstance(value, Mapping):
        return {key: _inner(item) for key, item in value.items()}
    return tuple(map(_inner, value)) if type(value) is tuple else list(map(_inner, value))


def _inner(value: object) -> object:
    """Leave what a list or mapping holds beside lists, mappings and single values: arrays and objects."""
    return own_values(value, Sequence if isinstance(value, Sequence | Mapping) else object)


def takes_lists(hint: object) -> bool:
    origin = get_origin(hint) or hint
    return origin in (Sequence, Mapping) or (origin in (Union, UnionType) and any(map(takes_lists, get_args(hint))))


def check_types(owner: str, values: Mapping[str, object], types: Mapping[str, object]) -> None:
    """Raise UsageError for the first value that is not of the type of its name."""
    for name, hint in types.items():
        if name in values and not fits(values[name], hint):
            raise UsageError(_refusal(f"{owner}({name}=...)", values[name], hint))


def _check_choices(values: Mapping[str, object], types: Mapping[str, object]) -> None:
    for name, hint in types.items():
        value, known = values.get(name), listed_texts(hint)
        if known and isinstance(value, str) and value not in known:
            raise UsageError(unknown(f"{_option(name)} {value} is unknown", value, known))


def listed_texts(hint: object) -> list[str]:
    """Return the texts that a type lists; none where it takes other texts too."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    takes_others = any(option in (str, *_ANYTHING) for option in options)
    return [] if takes_others else [one for each in options if get_origin(each) is Literal for one in get_args(each)]


def _check_ranges(values: Mapping[str, object], ranges: Mapping[str, Range]) -> None:
    for name, limit in ranges.items():
        value = values.get(name)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int | float) and not limit.holds(one):
                raise UsageError(f"{_option(name)} {one} must be {limit.wants()}")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@lru_cache(maxsize=256)
def argument_ranges(function: Callable[..., object]) -> Mapping[str, Range]:
    """Return the range of each argument whose annotation, or that of its items, has one."""
    hints = _argument_hints(function, include_extras=True)
    return {name: limit for name, hint in hints.items() if (limit := range_of(hint)) is not None}


@lru_cache(maxsize=256)
def argument_types(function: Callable[..., object]) -> Mapping[str, object]:
    """Return the type of each annotated argument, without its range."""
    return _argument_hints(function, include_extras=False)


def _argument_hints(function: Callable[..., object], *, include_extras: bool) -> Mapping[str, object]:
    """Leave out what is returned, which may be a class that is not imported yet."""
    written = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    named = SimpleNamespace(__annotations__=written)
    return get_type_hints(named, globalns=function.__globals__, include_extras=include_extras)


def fits(value: object, hint: object) -> bool:
    """Return whether a value is of a type; what can be gone through is a sequence, unless it is one text or a
    mapping."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _ANYTHING or origin is Callable:
        return hint in _ANYTHING or callable(value)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, tuple({type(one) for one in inner}))
    if origin is Sequence:
        return _is_sequence(value, inner[0])
    if origin is Mapping:
        return isinstance(value, Mapping) and all(fits(item, inner[1]) for item in value.values())
    kind = _KINDS.get(hint, origin or hint)
    return isinstance(kind, type) and isinstance(value, kind)


def _is_sequence(value: object, inner: object) -> bool:
    if isinstance(value, (*_TEXTS, Mapping, type)) or not isinstance(value, Iterable):
        return False
    return not isinstance(value, list | tuple) or all(fits(item, inner) for item in value)


def _refusal(argument: str, value: object, hint: object) -> str:
    """Write a text as a list of it where that is what was meant."""
    shown, *more = _SHORT.repr(value).splitlines()
    text = f"{argument} takes {described(hint)}, and not {shown}{' ...' if more else ''}"
    return f"{text}: write [{value!r}]" if isinstance(value, str) and fits([value], hint) else text


def described(hint: object) -> str:
    """Return what a value of a type is, in words: "a mapping or a list of texts"."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        words = list(dict.fromkeys(described(one) for one in inner if one is not NoneType))
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is Sequence:
        members = get_args(inner[0]) or (inner[0],)
        return "a list of " + " or ".join(_MANY.get(one, described(one)) for one in members)
    if origin is Mapping:
        return "a mapping"
    if origin is Callable:
        return "a function"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
