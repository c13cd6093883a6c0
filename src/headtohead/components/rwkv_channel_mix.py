"""RWKV-4's feed-forward: squared ReLU of a token and its predecessor, behind a gate (Peng et al. 2023,
https://arxiv.org/abs/2305.13048); parameters are laid out as published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Context, CostQuery, Costs, FeedForward, State
from headtohead.components.feedforwards import inner_width, squared_relu
from headtohead.components.linears import ResidualLinear
from headtohead.components.mixers.documents import starts
from headtohead.components.mixers.previous import previous, shifted
from headtohead.ranges import Multiple


@dataclass
class ChannelMixState(State):
    """The token before."""

    latest: Float[Tensor, "B D"] | None = None


class RwkvChannelMix(FeedForward):
    """sigmoid(W_r x') * W_v relu(W_k x'')^2, where x' and x'' hold a share of the token before."""

    def __init__(self, d_model: int, *, dropout: float = 0.0, multiple: Multiple = 4.0) -> None:
        super().__init__()
        self.d_model, self.inner, self.dropout = d_model, inner_width(d_model, multiple, two_thirds=False), dropout
        self.time_mix_key = nn.Parameter(torch.empty(1, 1, d_model))
        self.time_mix_receptance = nn.Parameter(torch.empty(1, 1, d_model))
        self.key = nn.Linear(d_model, self.inner, bias=False)
        self.receptance = nn.Linear(d_model, d_model, bias=False)
        self.value = ResidualLinear(self.inner, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The paper's start of a layer midway: later channels look back less."""
        place = torch.arange(self.d_model, device=self.time_mix_key.device) / self.d_model
        with torch.no_grad():
            self.time_mix_key.copy_(place**0.5)
            self.time_mix_receptance.copy_(place**0.5)

    def never_decayed(self) -> Iterator[Tensor]:
        yield from (self.time_mix_key, self.time_mix_receptance)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        return self.mix(x, previous(x, starts(context)))

    def mix(self, x: Float[Tensor, "B L D"], before: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        hidden = squared_relu(self.key(shifted(x, before, self.time_mix_key)))
        gate = torch.sigmoid(self.receptance(shifted(x, before, self.time_mix_receptance)))
        y: Tensor = gate * self.value(F.dropout(hidden, self.dropout) if self.training else hidden)
        return y

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> ChannelMixState:
        return ChannelMixState(latest=torch.zeros(batch_size, self.d_model, device=device, dtype=dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], ChannelMixState]:
        assert isinstance(state, ChannelMixState), "a state comes from initial_state"
        if context.valid is not None:
            x = x.masked_fill(~context.valid[..., None], 0.0)
        y = self.mix(x, previous(x, None, state.latest))
        state.latest = x[:, -1]
        state.length += x.shape[1]
        return y, state

    def costs(self, query: CostQuery) -> Costs:
        n, d, inner = query.length, self.d_model, self.inner
        kept = n * (6 * d + (2 if self.dropout == 0 else 3) * inner)
        return Costs.of(
            self,
            forward_flops=4 * n * d * inner + 2 * n * d * d,
            state_elements=d,
            activation_bytes=kept * query.bytes_per_element,
        )
