"""The tuning of a study's YAML: words, or a mapping of which every key and value is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headtohead.comparison.analyses.trials import Dimension, ValueChoices, ValueRange, without_repetition
from headtohead.config.errors import nearest, show
from headtohead.config.schema.value_kinds import (
    BoolKind,
    Either,
    Kind,
    MismatchError,
    NullKind,
    NumberKind,
    OneOf,
    TextKind,
    WholeNumber,
)
from headtohead.execution.tuning import LEARNING_RATE, Tuning, import_optuna, on_grid, size_of

UNTUNED = "none; arms train at the learning rates of their configurations"
"""The words for arms that are not tuned, which hold whatever their overrides are."""
_FEWEST = 2
_NARROWEST = 1.5
"""The narrowest ratio of the two ends of a log scale."""


class NumberField(Kind):
    """A number; YAML reads 1e-4, which has no dot, as text."""

    def read(self, value: Any) -> float:
        try:
            return NumberKind().read(float(value) if isinstance(value, str) else value)
        except ValueError:
            raise self.refuse() from None

    def wants(self) -> str:
        return "a number"


_VALUE = Either((WholeNumber(), NumberField(), BoolKind(), NullKind(), TextKind()))
_KINDS: dict[str, Kind] = {
    "search": OneOf(("grid", "random", "optuna")),
    "trials": WholeNumber(),
    "space": TextKind(),
    "seed": WholeNumber(),
    "seeds": WholeNumber(),
    "metric": TextKind(),
    "direction": OneOf(("min", "max")),
    "steps": WholeNumber(),
}
_KINDS_OF_RANGES: dict[str, Kind] = {
    "low": NumberField(),
    "high": NumberField(),
    "scale": OneOf(("log", "linear")),
    "kind": OneOf(("float", "int")),
    "points": WholeNumber(),
}


class TuningKind(Kind):
    """Reads a mapping as a Tuning, and leaves words as they are."""

    def read(self, value: Any) -> str | Tuning:
        if isinstance(value, str):
            return value
        if not isinstance(value, dict):
            raise self.refuse()
        _check_keys(value, _KINDS, "a mapping")
        space = {key: _dimension(key, entry) for key, entry in _mapping(value.get("space", {})).items()}
        fields = {key: _read(key, entry, _KINDS) for key, entry in value.items() if key != "space"}
        if "search" not in fields:
            raise MismatchError("a mapping with search: grid, random or optuna")
        fields.setdefault("trials", len(on_grid(space)) if fields["search"] == "grid" and _is_gridded(space) else 0)
        return _checked(Tuning(**fields, space=space))

    def wants(self) -> str:
        return "text, or a mapping such as {search: grid, trials: 8}"


TUNING: Kind = TuningKind()


def _checked(tuning: Tuning) -> Tuning:
    if tuning.trials < _FEWEST:
        raise MismatchError(f"a mapping with trials: {_FEWEST} or more")
    if tuning.seeds < 1:
        raise MismatchError("a mapping with seeds: 1 or more")
    if tuning.seed < 0 or (tuning.steps is not None and tuning.steps < 1):
        raise MismatchError("a mapping with seed from 0 on, and steps from 1 on")
    if tuning.metric is not None and not tuning.metric.startswith("validation/"):
        raise MismatchError(
            f"chosen on validation data, never on test data: metric: validation/NAME, not {tuning.metric}"
        )
    if tuning.search == "optuna":
        import_optuna()
    if tuning.search == "grid":
        return _with_grid(tuning)
    if tuning.space and size_of(tuning.space) < tuning.trials:
        raise MismatchError(f"no more trials than its space has settings: trials: {size_of(tuning.space):.0f} or fewer")
    return tuning


def _with_grid(tuning: Tuning) -> Tuning:
    """The one range without points has as many as make up the number of trials."""
    space = dict(tuning.space)
    if not space:
        return tuning
    open_ranges = [key for key, entry in space.items() if isinstance(entry, ValueRange) and entry.points is None]
    if len(open_ranges) == 1:
        others = len(on_grid({key: entry for key, entry in space.items() if key != open_ranges[0]}))
        entry = space[open_ranges[0]]
        assert isinstance(entry, ValueRange)
        if tuning.trials % others == 0 and tuning.trials // others >= _FEWEST:
            space[open_ranges[0]] = replace(entry, points=tuning.trials // others)
    if not _is_gridded(space):
        raise MismatchError(f"a grid of trials={tuning.trials}, with points for {' and '.join(open_ranges)}")
    size = len(on_grid(space))
    if size != tuning.trials:
        raise MismatchError(f"a grid with as many points as trials: they make {size}, and trials={tuning.trials}")
    return replace(tuning, space=space)


def _is_gridded(space: Mapping[str, Dimension]) -> bool:
    return bool(space) and all(isinstance(entry, ValueChoices) or entry.points is not None for entry in space.values())


def _dimension(key: str, entry: Any) -> Dimension:
    if isinstance(entry, list | tuple):
        values = tuple(_VALUE.read(value) for value in entry)
        if not values or len(without_repetition(values)) < len(values):
            raise MismatchError(f"a mapping in which space.{key} lists different values, not {show(entry)}")
        return ValueChoices(values)
    if not isinstance(entry, dict):
        raise MismatchError(
            f"a mapping in which space.{key} is a list of values or has low and high, not {show(entry)}"
        )
    _check_keys(entry, _KINDS_OF_RANGES, f"a mapping in which space.{key}")
    entries = {name: _read(f"space.{key}.{name}", value, _KINDS_OF_RANGES, name) for name, value in entry.items()}
    if not {"low", "high"} <= entries.keys():
        raise MismatchError(f"a mapping in which space.{key} has low and high")
    scale = "log" if key == LEARNING_RATE else "linear"
    return _checked_range(key, ValueRange(**{"scale": scale, **entries}))


def _checked_range(key: str, range_: ValueRange) -> ValueRange:
    low, high = range_.low, range_.high
    if low >= high or (range_.scale == "log" and (low <= 0 or high < _NARROWEST * low)):
        wide = f", from above 0 to {_NARROWEST} times that or more" if range_.scale == "log" else ""
        raise MismatchError(f"a mapping in which space.{key}.low is below high{wide}, not {low:g} and {high:g}")
    if range_.kind == "int" and not (low.is_integer() and high.is_integer()):
        raise MismatchError(f"a mapping in which space.{key} goes from one whole number to another, or has kind: float")
    if range_.points is not None and range_.points < _FEWEST:
        raise MismatchError(f"a mapping in which space.{key}.points is {_FEWEST} or more")
    return range_


def _mapping(space: Any) -> dict[str, Any]:
    if not isinstance(space, dict):
        raise MismatchError("a mapping in which space has fields, such as {optimizer.lr: {low: 0.0001, high: 0.01}}")
    return {str(key): entry for key, entry in space.items()}


def _check_keys(keys: Mapping[Any, Any], known: Mapping[str, Kind], what: str) -> None:
    for key in keys:
        if key not in known:
            guess = nearest(str(key), known)
            hint = f"did you mean {guess}?" if guess else f"choose from {', '.join(known)}"
            raise MismatchError(f"{what} without {key}: {hint}")


def _read(path: str, value: Any, kinds: Mapping[str, Kind], name: str | None = None) -> Any:
    kind = kinds[name or path]
    try:
        return kind.read(value)
    except MismatchError as mismatch:
        raise MismatchError(f"a mapping in which {path} is {mismatch}, not {show(value)}") from None
