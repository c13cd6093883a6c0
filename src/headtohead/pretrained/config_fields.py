"""Fields of config.json that several families share: rotary positions in both of their spellings, `rope_theta` beside
`rope_scaling` or a complete `rope_parameters`; sizes of images and patches, one number for both sides or two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from headtohead.pretrained.model_family import Hub, HubConfig, InexpressibleError, choice, flag

_BESIDE = ("rope_theta", "partial_rotary_factor")
"""Fields of rotary positions that stand beside `rope_scaling`, and within `rope_parameters`."""


def rotary_overrides(
    hub: Hub, *, base: float, width: int, rotated: int | None = None, pairing: str = "half"
) -> list[str]:
    """Return the overrides of the position; `base` and `rotated` channels are the defaults where `hub` has none."""
    rope = _parameters(hub, base)
    if rotated is None and rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise InexpressibleError(
            f"its rotary positions have partial_rotary_factor={rope['partial_rotary_factor']}, and in this family "
            "whole heads turn: remove it"
        )
    kind = rotary_kind(rope)
    if kind not in _SCALINGS:
        raise InexpressibleError(
            f"its rotary scaling {kind} is not supported: choose a checkpoint with one of {', '.join(_SCALINGS)}"
        )
    turned = width if rotated is None else rotated
    chosen, options = _SCALINGS[kind](hub, rope)
    if not float(rope["rope_theta"]) > 1:
        raise InexpressibleError(f"its rotary base is {rope['rope_theta']}, which must be above 1: correct it")
    options = {"base": float(rope["rope_theta"]), "fraction": share(turned, width), **options}
    if pairing != "half":
        options["pairing"] = pairing
    return [f"model/position={chosen}", *(f"model.position.{name}={value}" for name, value in options.items())]


def share(part: int, whole: int) -> float:
    """Return the fraction whose product with `whole`, truncated to an integer, is `part`."""
    fraction = part / whole
    return fraction if int(whole * fraction) == part else math.nextafter(fraction, 1.0)


def rope_parameters(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return `rope_parameters` for the position of a model of ours."""
    position = model["position"]
    kind = choice(position)
    if kind not in ("Rotary", "RotaryLinear", "RotaryYarn", "RotaryLlama3"):
        raise InexpressibleError(f"model.position is {kind}, and it has rotary, linear, yarn or llama3 scaling")
    rope: dict[str, Any] = {"rope_theta": position["base"], "rope_type": "default"}
    original = position.get("original_length") or model["max_length"]
    if kind == "RotaryLinear":
        rope |= {"rope_type": "linear", "factor": position["factor"]}
    elif kind == "RotaryYarn":
        rope |= {
            "rope_type": "yarn",
            "factor": position["factor"],
            "original_max_position_embeddings": original,
            "beta_fast": position["fast_turns"],
            "beta_slow": position["slow_turns"],
        }
        if position["magnitude"] is not None:
            rope["attention_factor"] = position["magnitude"]
        if not position.get("truncate", True):
            rope["truncate"] = False
    elif kind == "RotaryLlama3":
        rope |= {
            "rope_type": "llama3",
            "factor": position["factor"],
            "original_max_position_embeddings": original,
            "high_freq_factor": position["fast_turns"],
            "low_freq_factor": position["slow_turns"],
        }
    return rope


def rotary_fields(rope: Hub) -> HubConfig:
    """Return the fields of config.json for some `rope_parameters`, and the same as versions of transformers before 5
    read them, which would take the family's default base otherwise and say nothing."""
    beside = {name: rope[name] for name in _BESIDE if name in rope}
    scaling = {name: value for name, value in rope.items() if name not in _BESIDE}
    return {
        "rope_parameters": dict(rope),
        **beside,
        **({} if rotary_kind(rope) == "default" else {"rope_scaling": scaling}),
    }


def score_magnitude(hub: Hub, base: float) -> float:
    """Return what a scaling multiplies the scores of whole heads by, in models that have `mscale_all_dim`."""
    rope = _parameters(hub, base)
    weight = rope.get("mscale_all_dim")
    if rotary_kind(rope) == "default" or not weight:
        return 1.0
    return _magnitude(rope["factor"], weight) ** 2


def weight_of_magnitude(position: Hub, magnitude: float) -> float | None:
    """Return the `mscale_all_dim` that multiplies scores so under the position of a model of ours, None where nothing
    is to be multiplied; refuse what none does."""
    if math.isclose(magnitude, 1.0, rel_tol=1e-12):
        return None
    factor = position.get("factor", 1.0)
    if choice(position) == "Rotary" or not factor > 1.0 or not magnitude > 0.0:
        raise InexpressibleError(
            f"the scores are multiplied by {magnitude} beside the root of their width, which takes a rotary scaling "
            "with factor above 1: keep our own form"
        )
    return round((math.sqrt(magnitude) - 1.0) / (0.1 * math.log(factor)), 12)


def _parameters(hub: Hub, base: float) -> Mapping[str, Any]:
    """Return the parameters of rotary positions: `rope_scaling` overrides `rope_parameters` where there are both, and
    what neither contains is read from the fields beside them."""
    rope = {
        "rope_theta": hub.get("rope_theta", base),
        **(hub.get("rope_scaling") or hub.get("rope_parameters") or {}),
    }
    beside = {name: hub[name] for name in _BESIDE if hub.get(name) is not None}
    return {**beside, **rope}


def _plain(hub: Hub, rope: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    del hub, rope
    return "rotary", {}


def _linear(hub: Hub, rope: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    del hub
    return "rotary_linear", {"factor": float(rope["factor"])}


def rotary_differences(hub: Hub, base: float) -> Iterator[str]:
    """Give a sentence where the angles depend on the length of the text."""
    if rotary_kind(_parameters(hub, base)) == "dynamic":
        yield (
            f"its rotary scaling follows the length of the text beyond {hub['max_position_embeddings']} tokens, where "
            "reading at once and writing step by step would differ: here it is plain rotary, equal up to that length"
        )


def rotary_kind(rope: Mapping[str, object]) -> str:
    """Return the kind of scaling, in its newer or its older spelling."""
    return str(rope.get("rope_type", rope.get("type", "default")))


def _yarn(hub: Hub, rope: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    original = _original_length(hub, rope)
    factor = rope.get("factor") or hub["max_position_embeddings"] / original
    magnitude = rope.get("attention_factor")
    if magnitude is None and rope.get("mscale") and rope.get("mscale_all_dim"):
        magnitude = _magnitude(factor, rope["mscale"]) / _magnitude(factor, rope["mscale_all_dim"])
    return "rotary_yarn", {
        "factor": float(factor),
        "original_length": original,
        "fast_turns": float(rope.get("beta_fast") or 32),
        "slow_turns": float(rope.get("beta_slow") or 1),
        "magnitude": "null" if magnitude is None else float(magnitude),
        "truncate": flag(bool(rope.get("truncate", True))),
    }


def _magnitude(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1.0 else 0.1 * weight * math.log(factor) + 1.0


def _llama3(hub: Hub, rope: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "rotary_llama3", {
        "factor": float(rope["factor"]),
        "original_length": _original_length(hub, rope),
        "fast_turns": float(rope["high_freq_factor"]),
        "slow_turns": float(rope["low_freq_factor"]),
    }


def _original_length(hub: Hub, rope: Mapping[str, Any]) -> int:
    field = "original_max_position_embeddings"
    if rope.get(field) and hub.get(field) and rope[field] != hub[field]:
        raise InexpressibleError(
            f"its config.json has {field}={hub[field]}, and its rotary scaling {rope[field]}: correct one of them"
        )
    return int(rope.get(field) or hub.get(field) or hub["max_position_embeddings"])


_SCALINGS = {"default": _plain, "linear": _linear, "dynamic": _plain, "yarn": _yarn, "llama3": _llama3}


def check_positive(hub: Hub, *fields: str) -> None:
    """Refuse fields that hold no number above 0."""
    for field in fields:
        if type(hub[field]) not in (int, float) or not hub[field] > 0:
            raise InexpressibleError(
                f"its config.json has {field}={hub[field]}, which must be a number above 0: correct it"
            )


def base_of_layers(hub: Hub, kind: str, default: float) -> float:
    """Return the base of the rotary positions of these layers, as `rope_parameters` has it by their kind."""
    rope = {"rope_theta": default, **((hub["rope_parameters"] or {}).get(kind) or {})}
    if rotary_kind(rope) != "default":
        raise InexpressibleError(
            f"its rotary scaling {rotary_kind(rope)} is not supported in this family: choose a checkpoint without one"
        )
    return float(rope["rope_theta"])


def square_side(size: int | Sequence[int]) -> int:
    """Return the side of a square patch."""
    height, width = height_and_width(size)
    if height != width:
        raise InexpressibleError(
            f"its config.json has patch_size={size}, and patches of ours are square: choose another"
        )
    return height


def height_and_width(size: int | Sequence[int]) -> tuple[int, int]:
    """Return height and width."""
    height, width = (size, size) if isinstance(size, int | float) else size
    if any(type(side) is not int or side < 1 for side in (height, width)):
        raise InexpressibleError(
            f"its config.json has a size of {size}, which must be whole numbers above 0: correct it"
        )
    return height, width


def number_of_channels(hub: Hub) -> int:
    """Return the channels of the images; a file may hold null, which means nothing here."""
    channels: int | None = hub["num_channels"]
    if channels is None:
        raise InexpressibleError("its config.json has num_channels=null, which must be a whole number: correct it")
    return channels


def by_stage(hub: Hub, field: str, num_stages: int) -> list[int]:
    """Return a field that holds a whole number above 0 for each stage."""
    numbers = list(hub[field])
    if len(numbers) != num_stages or any(type(number) is not int or number < 1 for number in numbers):
        raise InexpressibleError(
            f"its config.json has {field}={numbers}, which must be a whole number above 0 for each of {num_stages} "
            "stages: correct it"
        )
    return numbers


def check_doubling(field: str, numbers: Sequence[int]) -> None:
    """Refuse numbers of which one is not twice the one before it."""
    if any(after != 2 * before for before, after in pairwise(numbers)):
        raise InexpressibleError(
            f"its config.json has {field}={list(numbers)}, and ours double from stage to stage: choose another "
            "checkpoint"
        )
