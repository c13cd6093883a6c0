"""Softmax attention one query at a time, as one would do it by hand: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Context
from headtohead.components.mixers import softmax_attention as fast


class SoftmaxAttention(fast.SoftmaxAttention):
    """The same parameters; every query meets only the keys that it may look at by causality."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        group = self.num_heads // self.num_kv_heads
        heads = torch.arange(self.num_heads, device=x.device) // group
        k, v = k[:, heads], v[:, heads]
        bias = self.full_bias(q, context)
        rows = []
        for place in range(x.shape[1]):
            num_keys = place + 1 if self.causal else x.shape[1]
            scores = self.scale * (q[:, :, place, None] @ k[:, :, :num_keys].mT)
            if bias is not None:
                own = bias if bias.shape[2] == 1 else bias[:, :, place, None]
                scores = scores + own[..., :num_keys]
            rows.append(_softmax(scores) @ v[:, :, :num_keys])
        y: Tensor = self.output(fast.merge_heads(torch.cat(rows, dim=2)))
        return y


def _softmax(scores: Float[Tensor, "B H 1 M"]) -> Float[Tensor, "B H 1 M"]:
    """Zero where no key is allowed."""
    empty = (scores == float("-inf")).all(-1, keepdim=True)
    scores = scores.masked_fill(empty, 0.0)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)).masked_fill(empty, 0.0)
