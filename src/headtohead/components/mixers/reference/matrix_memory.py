"""A memory written and read token by token: the yardstick for outputs, gradients and FLOPs."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.mixers import matrix_memory as fast


class MatrixMemory(fast.MatrixMemory):
    """The first token of a row has nothing to read."""

    def read(self, parts: fast.Parts, begins: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B H L V"]:
        exact = torch.promote_types(parts.v.dtype, torch.float32)
        q, k, v, decay = (t.to(exact) for t in (parts.q, parts.k, parts.values, parts.log_decay.exp()))
        matrix, outputs = None, []
        for token in range(v.shape[2]):
            value = v[:, :, token, None]
            if matrix is not None:
                if begins is not None:
                    matrix = matrix * ~begins[:, token, None, None, None]
                matrix = matrix * decay[:, :, token, :, None]
                if parts.reads is not None:
                    read = parts.reads[:, :, token, None].to(exact) @ matrix
                    if parts.writes is None:
                        value = value + read
                    else:
                        matrix = matrix + parts.writes[:, :, token, :, None].to(exact) @ read
            written = k[:, :, token, :, None] @ value
            matrix = written if matrix is None else matrix + written
            outputs.append(q[:, :, token, None] @ matrix)
        return torch.cat(outputs, dim=2).to(parts.v.dtype)
