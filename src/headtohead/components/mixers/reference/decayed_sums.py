"""y_t = q_t S_t with S_t = exp(g_t) S_(t-1) + k_t^T v_t, written as it is read."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class TokenByToken:
    """Takes the place of the chunks in a mixer."""

    def sums(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L P"],
        log_decay: Float[Tensor, "#B #H #L"],
        *,
        begins: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H K P"]]:
        q, k, v = (t.to(log_decay.dtype) for t in (q, k, v))
        decay = log_decay.expand(*v.shape[:3]).exp()
        last = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]) if state is None else state
        rows = []
        for t in range(v.shape[2]):
            if begins is not None:
                last = last * ~begins[:, t, None, None, None]
            last = decay[:, :, t, None, None] * last + k[:, :, t, :, None] @ v[:, :, t, None]
            rows.append(q[:, :, t, None] @ last)
        return torch.cat(rows, dim=2), last
