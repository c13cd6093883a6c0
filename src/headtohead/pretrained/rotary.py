"""Rotary positions as config.json tells them, in both of its spellings: `rope_theta` beside `rope_scaling`, or
`rope_parameters` that hold all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from headtohead.pretrained.family import Hub, InexpressibleError, choice


def rotary_overrides(
    hub: Hub, *, base: float, width: int, rotated: int | None = None, pairing: str = "half"
) -> list[str]:
    """What composes the position; `base` and `rotated` channels are those that hold where `hub` says nothing else."""
    told = _parameters(hub, base)
    if rotated is None and told.get("partial_rotary_factor", 1.0) != 1.0:
        raise InexpressibleError(
            f"its rotary positions have partial_rotary_factor={told['partial_rotary_factor']}, and in this family "
            "whole heads turn: take it out"
        )
    kind = rotary_kind(told)
    if kind not in _SCALINGS:
        raise InexpressibleError(
            f"its rotary scaling {kind} is none of ours: choose a checkpoint with one of {', '.join(_SCALINGS)}"
        )
    turned = width if rotated is None else rotated
    chosen, options = _SCALINGS[kind](hub, told)
    if not float(told["rope_theta"]) > 1:
        raise InexpressibleError(f"its rotary base is {told['rope_theta']}, which must be above 1: correct it")
    options = {"base": float(told["rope_theta"]), "fraction": share(turned, width), **options}
    if pairing != "half":
        options["pairing"] = pairing
    return [f"model/position={chosen}", *(f"model.position.{name}={value}" for name, value in options.items())]


def share(part: int, whole: int) -> float:
    """The fraction whose product with `whole`, cut to a whole number, is `part`."""
    fraction = part / whole
    return fraction if int(whole * fraction) == part else math.nextafter(fraction, 1.0)


def rope_parameters(model: Mapping[str, Any]) -> dict[str, Any]:
    """`rope_parameters` for the position of a model of ours."""
    position = model["position"]
    kind = choice(position)
    if kind not in ("Rotary", "RotaryLinear", "RotaryYarn", "RotaryLlama3"):
        raise InexpressibleError(f"model.position is {kind}, and it has rotary, linear, yarn or llama3 scaling")
    told: dict[str, Any] = {"rope_theta": position["base"], "rope_type": "default"}
    original = position.get("original_length") or model["max_length"]
    if kind == "RotaryLinear":
        told |= {"rope_type": "linear", "factor": position["factor"]}
    elif kind == "RotaryYarn":
        told |= {
            "rope_type": "yarn",
            "factor": position["factor"],
            "original_max_position_embeddings": original,
            "beta_fast": position["fast_turns"],
            "beta_slow": position["slow_turns"],
        }
        if position["magnitude"] is not None:
            told["attention_factor"] = position["magnitude"]
    elif kind == "RotaryLlama3":
        told |= {
            "rope_type": "llama3",
            "factor": position["factor"],
            "original_max_position_embeddings": original,
            "high_freq_factor": position["fast_turns"],
            "low_freq_factor": position["slow_turns"],
        }
    return told


def _parameters(hub: Hub, base: float) -> Mapping[str, Any]:
    """Return what is said of rotary positions: `rope_scaling` stands for `rope_parameters` where there are both, and
    what neither holds is looked for beside them."""
    told = {"rope_theta": hub.get("rope_theta", base), **(hub.get("rope_scaling") or hub.get("rope_parameters") or {})}
    beside = {name: hub[name] for name in ("partial_rotary_factor",) if hub.get(name) is not None}
    return {**beside, **told}


def _plain(hub: Hub, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    del hub, told
    return "rotary", {}


def _linear(hub: Hub, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    del hub
    return "rotary_linear", {"factor": float(told["factor"])}


def rotary_differences(hub: Hub, base: float) -> Iterator[str]:
    """Give a sentence where the angles depend on the length of the text."""
    if rotary_kind(_parameters(hub, base)) == "dynamic":
        yield (
            f"its rotary scaling follows the length of the text beyond {hub['max_position_embeddings']} tokens, where "
            "reading at once and writing step by step would differ: here it is plain rotary, equal up to that length"
        )


def rotary_kind(told: Mapping[str, Any]) -> str:
    """Return the kind of scaling, in its newer or its older spelling."""
    return str(told.get("rope_type", told.get("type", "default")))


def _yarn(hub: Hub, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if not told.get("truncate", True):
        raise InexpressibleError("its yarn scaling has truncate=false, and ours has whole pairs as borders")
    original = _original_length(hub, told)
    factor = told.get("factor") or hub["max_position_embeddings"] / original
    magnitude = told.get("attention_factor")
    if magnitude is None and told.get("mscale") and told.get("mscale_all_dim"):
        magnitude = _magnitude(factor, told["mscale"]) / _magnitude(factor, told["mscale_all_dim"])
    return "rotary_yarn", {
        "factor": float(factor),
        "original_length": original,
        "fast_turns": float(told.get("beta_fast") or 32),
        "slow_turns": float(told.get("beta_slow") or 1),
        "magnitude": "null" if magnitude is None else float(magnitude),
    }


def _magnitude(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1.0 else 0.1 * weight * math.log(factor) + 1.0


def _llama3(hub: Hub, told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "rotary_llama3", {
        "factor": float(told["factor"]),
        "original_length": _original_length(hub, told),
        "fast_turns": float(told["high_freq_factor"]),
        "slow_turns": float(told["low_freq_factor"]),
    }


def _original_length(hub: Hub, told: Mapping[str, Any]) -> int:
    field = "original_max_position_embeddings"
    if told.get(field) and hub.get(field) and told[field] != hub[field]:
        raise InexpressibleError(
            f"its config.json has {field}={hub[field]}, and its rotary scaling {told[field]}: correct one of them"
        )
    return int(told.get(field) or hub.get(field) or hub["max_position_embeddings"])


_SCALINGS = {"default": _plain, "linear": _linear, "dynamic": _plain, "yarn": _yarn, "llama3": _llama3}
