"""All layers share what is added to their scores: masks, the position bias, and the rotation, made once."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.component import Context


def causal_mask(length: int, num_keys: int, device: torch.device) -> Bool[Tensor, "1 1 L M"]:
    """Return a mask of the keys that a query may attend to; the last query sits at the last key."""
    mask = torch.ones(length, num_keys, dtype=torch.bool, device=device).tril(num_keys - length)
    return mask[None, None]


def allowed_pairs(
    context: Context, length: int, *, causal: bool, explicit: bool, device: torch.device
) -> Bool[Tensor, "#B 1 #L M"] | None:
    """Return which pairs may attend, or None where only causality applies and no `explicit` mask is requested.

    Causality alone keeps real tokens from padding, which is on the right: causal rows need no padding mask.
    """
    masks = []
    if context.segments is not None:
        masks.append((context.segments[:, :, None] == context.segments[:, None, :])[:, None])
    if context.valid is not None and not causal:
        masks.append(context.valid[:, None, None, :])
    if not masks and not explicit:
        return None
    if causal:
        masks.append(causal_mask(length, length, device))
    elif not masks:
        masks.append(torch.ones(1, 1, 1, length, dtype=torch.bool, device=device))
    allowed = masks[0]
    for mask in masks[1:]:
        allowed = allowed & mask
    return allowed


def as_bias(allowed: Bool[Tensor, "#B #H #L M"], dtype: torch.dtype) -> Float[Tensor, "#B #H #L M"]:
    """Return zero where allowed, minus infinity elsewhere."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, float("-inf"))


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype that matrix products of x come out in, autocast considered."""
    kind = x.device.type
    # Autocast leaves float64 alone, and does not know the meta device.
    if x.dtype != torch.float64 and torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return x.dtype


def with_score_masks(
    context: Context, x: Float[Tensor, "B L D"], *, causal: bool, encoding_biases: bool = True
) -> Context:
    """Return the context of a whole-sequence pass, with everything that its encoding and masks add to the scores; with
    masks alone where each layer adds the biases of an encoding of its own."""
    length, dtype = x.shape[1], compute_dtype(x)
    encoding = context.encoding
    explicit = encoding is not None and encoding.biases_scores
    allowed = allowed_pairs(context, length, causal=causal, explicit=explicit, device=x.device)
    return with_scores(context, allowed, dtype, encoding_biases=encoding_biases)


def with_scores(
    context: Context,
    allowed: Bool[Tensor, "#B 1 #L M"] | None,
    dtype: torch.dtype,
    *,
    encoding_biases: bool = True,
) -> Context:
    """Return the context with its rotation, unless it has one, and its bias where there is a mask."""
    encoding, queries = context.encoding, context.positions
    if encoding is None:
        return replace(context, allowed=allowed, bias=None if allowed is None else as_bias(allowed, dtype))
    assert queries is not None, "the stack fills positions first"
    rotation = encoding.rotation(queries, dtype) if context.rotation is None else context.rotation
    bias = None
    if allowed is not None:
        bias = as_bias(allowed, dtype)
        if encoding_biases and encoding.biases_scores and not encoding.bias_reads_queries:
            keys = queries if context.key_positions is None else context.key_positions
            from_encoding = encoding.bias(None, queries, keys)
            assert from_encoding is not None, "biases_scores promises a bias"
            bias = from_encoding.to(dtype) + bias
    return replace(context, rotation=rotation, allowed=allowed, bias=bias)
