"""minLSTM: an LSTM whose gates do not know its state, and share one whole (Feng et al. 2024,
https://arxiv.org/abs/2410.01201).

E inner channels.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.contracts import CostQuery, Costs
from headtohead.components.linears import ResidualLinear
from headtohead.components.mixers.gated_recurrence import GatedRecurrence, Gates, RecurrentState
from headtohead.components.mixers.min_gru import positive, share
from headtohead.components.mixers.scan import exact
from headtohead.ranges import Multiple


class MinLstm(GatedRecurrence):
    """h_t = f_t / (f_t + i_t) h_{t-1} + i_t / (f_t + i_t) g(v_t), then a linear map to the model's width."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        expand: Multiple = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        del num_heads, causal, dropout
        self.causal, self.d_model, self.width = True, d_model, int(expand * d_model)
        self.forget = nn.Linear(d_model, self.width, bias=bias)
        self.input = nn.Linear(d_model, self.width, bias=bias)
        self.candidate = nn.Linear(d_model, self.width, bias=bias)
        self.output = ResidualLinear(self.width, d_model, bias=bias)

    def gates(
        self,
        x: Float[Tensor, "B L D"],
        begins: Bool[Tensor, "B L"] | None,
        state: RecurrentState | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Gates:
        del begins, state, valid
        # log(i / f): the shares are its sigmoid and what is left.
        ahead = F.logsigmoid(exact(self.input(x))) - F.logsigmoid(exact(self.forget(x)))
        return Gates(-F.softplus(ahead), share(ahead), positive(exact(self.candidate(x))))

    def write(self, h: Float[Tensor, "B L E"], gates: Gates) -> Float[Tensor, "B L D"]:
        del gates
        y: Tensor = self.output(h)
        return y

    def costs(self, query: CostQuery) -> Costs:
        n, d, e = query.length, self.d_model, self.width
        return Costs.of(
            self,
            forward_flops=8 * n * d * e,
            state_elements=e,
            activation_bytes=n * (d + 11 * e) * query.bytes_per_element + n * e,
        )
