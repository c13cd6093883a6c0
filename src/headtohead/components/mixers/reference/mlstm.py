"""The mLSTM token by token, its gates too: the yardstick for outputs, gradients, FLOPs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.mixers import mlstm as fast
from headtohead.components.mixers.reference.decayed_sums import TokenByToken


class Mlstm(TokenByToken, fast.Mlstm):
    """The same parameters; m_t = max(log f_t + m_(t-1), i_t) as the paper has it, and its gradient followed."""

    def open_gates(
        self,
        x: Float[Tensor, "B L D"],
        begins: Bool[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
        scale: Float[Tensor, "B H"] | None = None,
    ) -> fast.Gates:
        exact = torch.promote_types(x.dtype, torch.float32)
        bias = torch.cat((self.input_bias, self.forget_bias)).to(exact)
        i, f = (F.linear(x.to(exact), self.gate_weight.to(exact)) + bias).mT.chunk(2, dim=1)
        m = torch.zeros_like(i[..., 0]) if scale is None else scale
        let_in, log_kept, scales = [], [], []
        for t in range(x.shape[1]):
            i_t, kept = i[..., t], F.logsigmoid(f[..., t])
            if valid is not None:
                i_t = i_t.masked_fill(~valid[:, None, t], float("-inf"))
                kept = kept.masked_fill(~valid[:, None, t], 0.0)
            before = m if begins is None else m * ~begins[:, None, t]
            m = torch.maximum(kept + before, i_t)
            let_in.append((i_t - m).exp())
            log_kept.append(kept + before - m)
            scales.append(m)
        return fast.Gates(*(torch.stack(rows, dim=-1) for rows in (let_in, log_kept, scales)))
