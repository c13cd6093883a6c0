"""A mixer that names its attention names what it does: the weights give its outputs, and keep to its masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Mixer
from headtohead.components.stack import Stack
from headtohead.diagnostics.laws.law_subject import LawBroken, LawSubject, require_equal

Call = tuple[HasAttentionMaps, Tensor, Context, Tensor]
"""A mixer that was called, with what, and what it answered."""


def explicit_attention(subject: LawSubject) -> None:
    """Values mixed by the weights are the outputs under every mask; forbidden pairs have no weight; and turning the
    causal mask on or off changes nothing but which pairs are visible."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    for masks in _masks(subject, stack):
        for part, inputs, seen, output in _calls(stack, x, replace(context, **masks)):
            with torch.no_grad():
                weights = part.attention(inputs, seen)
                mixed = part.mixed(weights, inputs, seen)
            require_equal(mixed, output, "values mixed by the attention weights must give the outputs")
            _keeps_to_the_masks(part, weights, inputs, seen)


def _masks(subject: LawSubject, stack: Stack) -> Iterator[dict[str, Any]]:
    """Yield None, padding (of the memory too), packed documents, and both."""
    rows, length = subject.num_rows, subject.length
    lengths = torch.tensor([length, length - 4, 1])[:, None]
    padding = {"valid": torch.arange(length) < lengths}
    first = length // 3
    packed = {
        "segments": (torch.arange(length) >= first).long().expand(rows, -1),
        "positions": torch.cat((torch.arange(first), torch.arange(length - first))).expand(rows, -1),
    }
    if stack.has_cross:
        memory_lengths = torch.tensor([subject.memory_length, subject.memory_length - 2, 1])[:, None]
        padding["memory_valid"] = torch.arange(subject.memory_length) < memory_lengths
    yield from ({}, padding, packed, {**padding, **packed})


def _calls(stack: Stack, x: Tensor, context: Context) -> list[Call]:
    """Return all calls of mixers with attention in one pass."""
    calls: list[Call] = []

    def note(part: nn.Module, inputs: tuple[Tensor, Context], output: Tensor) -> None:
        assert isinstance(part, HasAttentionMaps)
        calls.append((part, *inputs, output))

    hooks = [part.register_forward_hook(note) for part in stack.modules() if isinstance(part, HasAttentionMaps)]
    try:
        with torch.no_grad():
            stack(x, context)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def _keeps_to_the_masks(part: HasAttentionMaps, own: Tensor, x: Tensor, context: Context) -> None:
    """Check queries of real tokens only: padding may attend anywhere."""
    is_self = isinstance(part, Mixer)
    real = torch.ones(x.shape[:2], dtype=torch.bool) if context.valid is None else context.valid
    with torch.no_grad():
        free, masked = (part.attention(x, context, causal=causal) for causal in (False, True))
    own, free, masked = (weights.transpose(1, 2)[real] for weights in (own, free, masked))
    open_pairs = _open_pairs(x, context, num_keys=own.shape[-1], is_self=is_self)
    past = open_pairs.tril() if is_self else open_pairs
    everywhere, before = (pairs[real].unsqueeze(1) for pairs in (open_pairs, past))
    for weights, allowed in ((own, before if _is_causal(part) else everywhere), (free, everywhere), (masked, before)):
        _require_silence(weights, allowed)
        if part.gives_shares(context):
            _require_shares(weights, allowed)
    left = free * before
    if part.sums_to_one:  # a mask changes the total that the weights are divided by
        left, masked = (weights / weights.abs().sum(-1, keepdim=True).clamp(min=1e-30) for weights in (left, masked))
    message = "with its causal mask a mixer must spread the same scores over the remaining keys"
    require_equal(masked, left, message, tolerance=1e-9 if masked.dtype == torch.float64 else 1e-4)


def _is_causal(part: HasAttentionMaps) -> bool:
    return isinstance(part, Mixer) and part.causal


def _open_pairs(x: Tensor, context: Context, *, num_keys: int, is_self: bool) -> Bool[Tensor, "B L M"]:
    """Return who may attend to whom apart from causality, written independently of what the mixers use."""
    rows, length = x.shape[:2]
    allowed = torch.ones(rows, length, num_keys, dtype=torch.bool)
    keys = context.valid if is_self else context.memory_valid
    if keys is not None:
        allowed = allowed & keys[:, None, :]
    if is_self and context.segments is not None:
        allowed = allowed & (context.segments[:, :, None] == context.segments[:, None, :])
    return allowed


def _require_silence(weights: Tensor, allowed: Tensor) -> None:
    heard = float((weights * ~allowed).abs().max())
    if heard != 0:
        raise LawBroken(f"a masked key must have no weight: one has {heard:.1e}")


def _require_shares(weights: Tensor, allowed: Tensor) -> None:
    if weights.min() < 0:
        raise LawBroken(f"weights must not be negative: one is {float(weights.min()):.1e}")
    off = float((weights.sum(-1) - allowed.any(-1).to(weights.dtype)).abs().max())
    if not off <= 1e-5:
        raise LawBroken(
            f"the weights of a query must sum to 1, or to 0 if all keys are masked: one is off by {off:.1e}"
        )
