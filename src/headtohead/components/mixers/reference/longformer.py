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
        (q, k, v), (own_q, own_k, own_v) = self.project(x, context), self.project_global(x, context)
        first = own_q.shape[2]
        sides = (
            (own_q, own_k, own_v, positions[:, :first], allowed[:, :, :first, : own_k.shape[2]]),
            (q[:, :, first:], k, v, positions[:, first:], allowed[:, :, first:]),
        )
        seen = []
        for queries, keys, values, places, pairs in sides:
            known = positions[:, : keys.shape[2]]
            bias = score_bias(context.encoding, queries, places, known, pairs, self.scale)
            bias = bias.expand(len(x), self.num_heads, -1, -1)
            seen.append(one_by_one(queries, keys, values, bias, pairs[:, 0], self.scale))
        return self.output(merge_heads(torch.cat(seen, dim=2)))
