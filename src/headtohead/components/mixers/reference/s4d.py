"""S4D one token at a time, in complex numbers."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.mixers import s4d as fast
from headtohead.components.mixers.scan import exact


class S4d(fast.S4d):
    """The same parameters; every state is made of the one before."""

    def whole(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        A = torch.complex(-exact(self.log_decay).exp(), exact(self.frequency))
        decay = (exact(self.log_step).exp()[:, None] * A).exp()
        brings = torch.view_as_real((decay - 1) / A).flatten(1)
        reads = (exact(self.C) * brings.new_tensor([1.0, -1.0])).flatten(1)
        h = torch.zeros(len(x), *A.shape, dtype=A.dtype, device=x.device)
        y = []
        for x_t in exact(x).unbind(1):
            brought = x_t.mT[..., None] @ brings[:, None]
            h = decay * h + torch.view_as_complex(brought.unflatten(-1, (-1, 2))).transpose(0, 1)
            y.append(2 * torch.view_as_real(h).flatten(2).transpose(0, 1) @ reads[..., None])
        return self.write(torch.stack(y).squeeze(-1).permute(2, 0, 1).to(x.dtype), x)
