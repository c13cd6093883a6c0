"""Attention by a pattern one query at a time: each takes the keys of its pattern, and only those; the yardstick."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.contracts import Context
from headtohead.components.mixers.softmax_attention import merge_heads
from headtohead.components.mixers.sparse_attention import SparseAttention, positions_of, score_bias


class OneByOne(SparseAttention):
    """To be put before a fast class: its pattern and parameters, in a plain loop."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        heads = torch.arange(self.num_heads, device=x.device) // (self.num_heads // self.num_kv_heads)
        positions = positions_of(context, x)
        allowed = self.allowed(x, context, causal=self.causal)
        bias = score_bias(context.encoding, q, positions, positions, allowed, self.scale)
        bias = bias.expand(len(x), self.num_heads, -1, -1)
        y: Tensor = self.output(merge_heads(one_by_one(q, k[:, heads], v[:, heads], bias, allowed[:, 0], self.scale)))
        return y


def one_by_one(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H M K"],
    v: Float[Tensor, "B H M K"],
    bias: Float[Tensor, "B H L M"],
    allowed: Bool[Tensor, "#B L M"],
    scale: float,
) -> Float[Tensor, "B H L K"]:
    """softmax over the keys that are allowed; zero where none is."""
    rows = []
    for row, pairs in enumerate(allowed.expand(len(q), -1, -1)):
        seen = []
        for place, keys in enumerate(pairs):
            scores = scale * (q[row, :, place, None] @ k[row][:, keys].mT) + bias[row, :, place, None][..., keys]
            weights = scores.softmax(-1) if bool(keys.any()) else scores
            seen.append(weights @ v[row][:, keys])
        rows.append(torch.cat(seen, dim=1))
    return torch.stack(rows)
