"""Linformer one row of keys and one query at a time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Context
from headtohead.components.mixers import linformer as fast
from headtohead.components.mixers.softmax_attention import merge_heads, split_heads


class Linformer(fast.Linformer):
    """The same parameters; every row of keys and values is a sum over the tokens of its document."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        real = torch.ones(x.shape[:2]) if context.valid is None else context.valid
        real = real.to(x.dtype)[..., None]
        for_keys, for_values = self.along(x.shape[1])
        keys, values = self.key(x) * real, self.value(x) * real
        k, v = (
            split_heads(torch.cat([weights[None] @ tokens for weights in rows], dim=1), self.head_width)
            for rows, tokens in ((for_keys, keys), (for_values, values))
        )
        q, seen = split_heads(self.query(x), self.head_width), []
        for place in range(x.shape[1]):
            scores = self.scale * (q[:, :, place, None] @ k.mT)
            seen.append(scores.softmax(-1) @ v)
        y: Tensor = self.output(merge_heads(torch.cat(seen, dim=2)))
        return y
