"""Published models whose layers differ in kind: their lists of layers, and our patterns of mixers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headtohead.pretrained.model_description import Model
from headtohead.pretrained.model_family import Hub, HubConfig, InexpressibleError
from headtohead.pretrained.rotary_config import rotary_kind


def listed_kinds(hub: Hub, mixers: Mapping[str, str]) -> list[str]:
    """Return the kind of each layer as `layer_types` lists them; refuse a kind without a mixer of ours."""
    kinds = list(hub["layer_types"])
    if len(kinds) != hub["num_hidden_layers"] or not set(kinds) <= mixers.keys():
        raise InexpressibleError(
            f"its config.json has layer_types={kinds}, which must be {' or '.join(mixers)} for each of its "
            f"{hub['num_hidden_layers']} layers: correct it"
        )
    return kinds


def pattern_override(kinds: Sequence[str], mixers: Mapping[str, str]) -> str:
    """Return the override of the pattern: the shortest beginning that repeated gives all layers."""
    lengths = range(1, len(kinds) + 1)
    length = next(n for n in lengths if all(kind == kinds[layer % n] for layer, kind in enumerate(kinds)))
    return f"model.pattern=[{','.join(mixers[kind] for kind in kinds[:length])}]"


def mixer_paths(model: Model) -> list[str]:
    """Return where each layer's mixer stands in the configuration."""
    pattern = model.get("pattern") or ()
    paths = [f"mixers.{name}" for name in pattern] or ["mixer"]
    return [paths[layer % len(paths)] for layer in range(model["num_layers"])]


def mixer_node(model: Model, path: str) -> Model:
    """Return the configuration of the mixer at one of these paths."""
    slot, _, name = path.partition(".")
    node: Model = model[slot][name] if name else model[slot]
    return node


def shared_fields(model: Model, paths: Sequence[str], form: str) -> HubConfig:
    """Return the fields of the mixers at these paths, which must agree where several have one."""
    fields: HubConfig = {}
    for path in dict.fromkeys(paths):
        for field, value in mixer_node(model, path).items():
            if field != "_target_" and fields.setdefault(field, value) != value:
                raise InexpressibleError(
                    f"the mixers of model.pattern have {field}={fields[field]} and {field}={value}, and {form} has one "
                    "for all: give all the same"
                )
    return fields


def base_of_layers(hub: Hub, kind: str, default: float) -> float:
    """Return the base of the rotary positions of these layers, as `rope_parameters` has it by their kind."""
    rope = {"rope_theta": default, **((hub["rope_parameters"] or {}).get(kind) or {})}
    if rotary_kind(rope) != "default":
        raise InexpressibleError(
            f"its rotary scaling {rotary_kind(rope)} is not supported in this family: choose a checkpoint without one"
        )
    return float(rope["rope_theta"])
