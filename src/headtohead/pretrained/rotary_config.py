"""Rotary positions are read from config.json in both of its spellings: `rope_theta` beside `rope_scaling`, or a
complete `rope_parameters`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from headtohead.pretrained.model_family import Hub, InexpressibleError, choice, flag


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
    beside = {name: hub[name] for name in ("partial_rotary_factor",) if hub.get(name) is not None}
    return {**beside, **rope}


def _plain(hub: Hub, rope: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
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


def rotary_kind(rope: Mapping[str, Any]) -> str:
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
