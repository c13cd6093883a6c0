"""Attention by features with its sums made token by token, as one would do it by hand."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Context
from headtohead.components.mixers.documents import starts
from headtohead.components.mixers.kernel_attention import Features, KernelAttention


class TokenByToken(KernelAttention):
    """Adds one token to the sums, then reads them; read from last to first as well where all tokens count."""

    def means_before(self, features: Features, v: Tensor, context: Context) -> Float[Tensor, "B H L K"]:
        (q, k), (turned_q, turned_k) = (features.q, features.k), features.weighing
        begins, v = starts(context), v.to(q.dtype)
        sums, totals = v.new_zeros(*v.shape[:2], q.shape[-1], v.shape[-1]), torch.zeros_like(q[:, :, 0])
        rows = []
        for place in range(v.shape[2]):
            if begins is not None:
                goes_on = ~begins[:, place, None, None]
                sums, totals = sums * goes_on[..., None], totals * goes_on
            sums = sums + turned_k[:, :, place, :, None] @ v[:, :, place, None]
            totals = totals + k[:, :, place]
            rows.append(_read(q[:, :, place], turned_q[:, :, place], sums, totals))
        return torch.stack(rows, dim=2)

    def means_of_all(self, features: Features, v: Tensor, context: Context) -> Float[Tensor, "B H L K"]:
        (q, k), (turned_q, turned_k) = (features.q, features.k), features.weighing
        begins, v = starts(context), v.to(q.dtype)
        number = torch.zeros(v.shape[0], v.shape[2]) if begins is None else begins.cumsum(1)
        y = torch.zeros_like(v)
        for document in range(int(number.max()) + 1):
            inside = (number == document)[:, None, :, None]
            sums, totals = torch.zeros_like(q[:, :, 0, :, None] * v[:, :, 0, None]), (k * inside).sum(2)
            for place in range(v.shape[2]):
                sums = sums + (turned_k * inside)[:, :, place, :, None] @ v[:, :, place, None]
            rows = [_read(q[:, :, place], turned_q[:, :, place], sums, totals) for place in range(v.shape[2])]
            y = y + torch.stack(rows, dim=2) * inside
        return y


def _read(
    q: Float[Tensor, "B H F"],
    turned_q: Float[Tensor, "B H F"],
    sums: Float[Tensor, "B H F K"],
    totals: Float[Tensor, "B H F"],
) -> Tensor:
    """What the query takes of every value, by its share; a rotary position turns what weighs values alone."""
    total = (q * totals).sum(-1, keepdim=True)
    return (turned_q[:, :, None] @ sums)[:, :, 0] / total.where(total != 0, 1.0)
