"""Longformer one query at a time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Context
from headtohead.components.mixers import longformer as fast
from headtohead.components.mixers.reference.sparse_attention import one_by_one
from headtohead.components.mixers.softmax_attention import merge_heads
from headtohead.components.mixers.sparse_attention import positions_of, score_bias


class Longformer(fast.Longformer):
    """The same parameters; every query takes the keys that it may look at, a global one by projections of its own."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        allowed, positions = self.allowed(x, context, causal=self.causal), positions_of(context, x)
        first = 0 if self.causal else min(self.num_global, x.shape[1])
        q, k, v = self.project(x, context)
        sides = [(q[:, :, first:], k, v, slice(first, None))]
        if not self.causal:
            sides.insert(0, (*self.project_global(x, context), slice(first)))
        seen = []
        for queries, keys, values, at in sides:
            pairs = allowed[:, :, at]
            bias = score_bias(context.encoding, queries, positions[:, at], positions, pairs, self.scale)
            bias = bias.expand(len(x), self.num_heads, -1, -1)
            seen.append(one_by_one(queries, keys, values, bias, pairs[:, 0], self.scale))
        y: Tensor = self.output(merge_heads(torch.cat(seen, dim=2)))
        return y
