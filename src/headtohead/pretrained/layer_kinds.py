"""Layers of several kinds in config.json, as lists or by a period, and our patterns of mixers and feed-forwards for
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headtohead.pretrained.model_description import Model, depth, described
from headtohead.pretrained.model_family import Hub, HubConfig, InexpressibleError, choice

Kind = TypeVar("Kind", str, bool)
"""The kind of a layer, or whether it has something."""


def check_period(hub: Hub, field: str) -> None:
    """Refuse a number of layers, from one of a kind to the next, that is none."""
    if type(hub[field]) is not int or hub[field] < 1:
        raise InexpressibleError(
            f"its config.json has {field}={hub[field]}, which must be a whole number of layers, 1 or more: correct it"
        )


@dataclass(frozen=True)
class LayerKind:
    """The mixer of ours in layers of a kind."""

    choice: str
    made_by: str
    """Its class."""


EVERYTHING, WINDOW = "full_attention", "sliding_attention"
WINDOWS: Mapping[str, LayerKind] = {
    EVERYTHING: LayerKind("softmax_attention", "SoftmaxAttention"),
    WINDOW: LayerKind("sliding_window", "SlidingWindow"),
}


def listed_kinds(hub: Hub, known: Mapping[str, LayerKind]) -> list[str]:
    """Return the kind of each layer as `layer_types` lists them; refuse a kind without a mixer of ours."""
    kinds = list(hub["layer_types"])
    if len(kinds) != hub["num_hidden_layers"] or not set(kinds) <= known.keys():
        raise InexpressibleError(
            f"its config.json has layer_types={kinds}, which must be {' or '.join(known)} for each of its "
            f"{hub['num_hidden_layers']} layers: correct it"
        )
    return kinds


def pattern_override(kinds: Sequence[str], known: Mapping[str, LayerKind]) -> str:
    """Return the override of the pattern of mixers."""
    return f"model.pattern=[{','.join(known[kind].choice for kind in repeated_part(kinds))}]"


def repeated_part(kinds: Sequence[Kind]) -> Sequence[Kind]:
    """Return the shortest beginning that repeated gives all layers."""
    lengths = range(1, len(kinds) + 1)
    length = next(n for n in lengths if all(kind == kinds[layer % n] for layer, kind in enumerate(kinds)))
    return kinds[:length]


def period_of(has_kind: Sequence[bool]) -> tuple[int, int] | None:
    """Return the period of layers of a kind and the first of them; None where they follow none."""
    first, *later = [layer for layer, has in enumerate(has_kind) if has] or [len(has_kind)]
    period = later[0] - first if later else max(first + 1, len(has_kind))
    in_period = [layer % period == first for layer in range(len(has_kind))]
    return (period, first) if in_period == list(has_kind) else None


def mixer_paths(model: Model) -> list[str]:
    """Return where each layer's mixer stands in the configuration."""
    return _paths(model.get("pattern"), "mixer", model["num_layers"])


def feedforward_paths(model: Model, side: str = "") -> list[str]:
    """Return where the feed-forward of each layer stands in the configuration, or of each layer of one side."""
    own = described(model, f"{side}.feedforward_pattern") if side else None
    layers = depth(model, side) if side else model["num_layers"]
    return _paths(own or model.get("feedforward_pattern"), "feedforward", layers)


def _paths(pattern: Sequence[str] | None, slot: str, num_layers: int) -> list[str]:
    paths = [f"{slot}s.{name}" for name in pattern or ()] or [slot]
    return [paths[layer % len(paths)] for layer in range(num_layers)]


def kinds_of_layers(model: Model, known: Mapping[str, LayerKind]) -> list[str]:
    """Return the kind of each layer by the class of its mixer, which must be among those known."""
    kinds = {kind.made_by: name for name, kind in known.items()}
    return [kinds[choice(node_at(model, path))] for path in mixer_paths(model)]


def node_at(model: Model, path: str) -> Model:
    """Return the configuration of the mixer or the feed-forward at one of these paths."""
    slot, _, name = path.partition(".")
    node: Model = model[slot][name] if name else model[slot]
    return node


def shared_fields(model: Model, paths: Sequence[str], form: str) -> HubConfig:
    """Return the fields of the parts at these paths, which must agree where several have one."""
    fields: HubConfig = {}
    of_mixers = ("mixer", "model.pattern")
    for path in dict.fromkeys(paths):
        part, pattern = of_mixers if path.startswith("mixer") else ("feed-forward", "model.feedforward_pattern")
        for field, value in node_at(model, path).items():
            if field != "_target_" and fields.setdefault(field, value) != value:
                raise InexpressibleError(
                    f"the {part}s of {pattern} have {field}={fields[field]} and {field}={value}, and {form} has one "
                    "for all: give all the same"
                )
    return fields
