"""Refuse mixers that mix their values with those of an earlier layer where there is none, or where its values have
another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, cycle, groupby

from headtohead.config.compose.layer_patterns import MIXERS
from headtohead.config.errors import show
from headtohead.config.rules.config_view import ConfigView, StackSide


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (_lone_layers, _unlike_values)


def _lone_layers(view: ConfigView) -> Iterator[str]:
    """Refuse one layer of the kind in a stack: it would be another mixer under its name."""
    for reading in _mixers_by_stack(view):
        side = reading[0]
        fields, paths = view.fields_of(side.path), [one.paths["mixer"] for one in reading]
        pattern, depth = view.at(fields.get(MIXERS.field)), view.depth(side)
        mixers = [f"model.{MIXERS.parts}.{name}" for name in pattern or ()] or paths
        enough = _depth_of_two([mixer in paths for mixer in mixers])
        if depth is not None and depth < enough:
            otherwise = f"name it twice in {fields[MIXERS.field]}" if pattern else "choose another mixer"
            yield (
                f"{view.chosen_of(side, 'mixer')} {side.can('mixer', 'reads_layers')}, and with "
                f"{fields['num_layers']}={depth} there is one: give {fields['num_layers']}={enough}, or {otherwise}"
            )


def _depth_of_two(are_of_kind: list[bool]) -> int:
    """Return how many layers of this repeated pattern hold two of the kind."""
    return next(depth for depth, count in enumerate(accumulate(cycle(are_of_kind)), 1) if count == 2)


def _unlike_values(view: ConfigView) -> Iterator[str]:
    heads, width = view.model.get("num_heads") or 1, view.model.get("d_model") or 1
    for first, *others in _mixers_by_stack(view):
        for field, usual in (("num_kv_heads", heads), ("head_width", width // heads)):
            (path, own), *named = [(one.paths["mixer"], one.nodes["mixer"].get(field)) for one in (first, *others)]
            for other, theirs in named:
                if (own or usual) != (theirs or usual):
                    yield (
                        f"{path}.{field}={show(own)} and {other}.{field}={show(theirs)} make values of two shapes, "
                        "which cannot be mixed: give both the same"
                    )


def _mixers_by_stack(view: ConfigView) -> Iterator[list[StackSide]]:
    """Yield the sides of each stack whose mixers mix values of layers, each mixer once."""
    for _, sides in groupby(view.sides(), lambda side: side.path):
        mixing = {side.paths["mixer"]: side for side in sides if side.can("mixer", "reads_layers")}
        if mixing:
            yield list(mixing.values())
