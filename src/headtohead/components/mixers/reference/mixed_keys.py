"""These twins of attention to mixtures of keys make them by hand, row by row or query by query."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.attention.linformer import Linformer
from headtohead.components.mixers.attention.nystrom import STEPS, Nystrom
from headtohead.components.mixers.attention.softmax_attention import merge_heads, split_heads


class ReferenceLinformer(Linformer):
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
        for position in range(x.shape[1]):
            scores = self.scale * (q[:, :, position, None] @ k.mT)
            seen.append(scores.softmax(-1) @ v)
        y: Tensor = self.output(merge_heads(torch.cat(seen, dim=2)))
        return y


class ReferenceNystrom(Nystrom):
    """The same parameters; every row finds its segments, and every token the taps of its convolution, by itself."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = (split_heads(part(x), self.head_width) for part in (self.query, self.key, self.value))
        lengths = [x.shape[1]] * len(x) if context.valid is None else context.valid.sum(1).tolist()
        rows = [self.read_row(q[row], k[row], v[row], max(1, length)) for row, length in enumerate(lengths)]
        output: Tensor = self.output(merge_heads(torch.stack(rows)))
        return output

    def read_row(
        self, q: Float[Tensor, "H L K"], k: Float[Tensor, "H L K"], v: Float[Tensor, "H L K"], length: int
    ) -> Float[Tensor, "H L K"]:
        """Return what the heads read in one row of so many real tokens."""
        number = min(self.landmarks, length)
        segments = [[at for at in range(length) if at * number // length == mark] for mark in range(number)]
        q_mark, k_mark = (torch.stack([t[:, own].mean(1) for own in segments], dim=1) for t in (q, k))
        first, between, last = (
            (self.scale * (queries @ keys.mT)).softmax(-1)
            for queries, keys in ((q, k_mark), (q_mark, k_mark), (q_mark, k[:, :length]))
        )
        z, eye = between.mT / between.sum(-2).max(), torch.eye(number, dtype=q.dtype)
        for _ in range(STEPS):
            near = between @ z
            z = z @ (13 * eye - near @ (15 * eye - near @ (7 * eye - near))) / 4
        y = first @ (z @ (last @ v[:, :length]))
        if self.conv is None:
            return y
        half = self.taps // 2
        around = F.pad(v[:, :length], (0, 0, half, half + q.shape[1] - length)).unfold(1, self.taps, 1)
        return y + torch.einsum("hlkt,ht->hlk", around, self.conv.weight[:, 0, :, 0].to(v.dtype))
