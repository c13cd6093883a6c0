"""Which mixer each layer has: one for all, or a pattern repeated from the first layer to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headtohead.components.contracts import MixerFactory
from headtohead.errors import UsageError


def mixers_by_layer(
    num_layers: int,
    mixer: MixerFactory,
    pattern: Sequence[str] | None = None,
    mixers: Mapping[str, MixerFactory] | None = None,
    *,
    pattern_field: str = "model.pattern",
    layers_field: str = "model.num_layers",
) -> list[MixerFactory]:
    """`pattern` names entries of `mixers`, layer by layer, and starts again when it ends; None has `mixer` in all.

    The fields are those that a refusal names.
    """
    if not pattern:
        return [mixer] * num_layers
    known = mixers or {}
    for name in pattern:
        if name not in known:
            raise UsageError(
                f"{pattern_field} names {name}, and model.mixers has {', '.join(sorted(known)) or 'none'}: "
                f"add it by +model/mixer@model.mixers.{name}=CHOICE"
            )
    if len(pattern) > num_layers:
        raise UsageError(
            f"{pattern_field} holds {len(pattern)} layers and {layers_field}={num_layers}: give at least as many layers"
        )
    return [known[pattern[layer % len(pattern)]] for layer in range(num_layers)]
