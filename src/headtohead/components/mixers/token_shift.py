"""Token shift: every token takes a share of its neighbour, channel by channel (Peng et al. 2023,
https://arxiv.org/abs/2305.13048)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.contracts import Context, CostQuery, Costs, Mixer, State
from headtohead.components.mixers.documents import by_document
from headtohead.components.mixers.realigned import realigned
from headtohead.components.mixers.short_conv import LatestState


class TokenShift(Mixer):
    """x_t + m (x_{t-1} - x_t) with a learned m for each channel, from 0 to 1/2 at the start; where both sides are seen,
    every other channel looks at x_{t+1} instead."""

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        del num_heads, dropout
        self.d_model, self.causal = d_model, causal
        self.share = nn.Parameter(torch.empty(d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.share.copy_(torch.arange(self.d_model) / (2 * self.d_model))

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = by_document(x, context)
        if documents is not None:
            return documents.back(self.read(documents.x, documents.valid))
        return self.read(x, context.valid)

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        """Rows with nothing before and after them; padding, on the right, is nothing too."""
        nothing = torch.zeros_like(x[:, :1])
        neighbour = torch.cat((nothing, x[:, :-1]), dim=1)
        if not self.causal:
            real = x if valid is None else x * valid[..., None]
            following = torch.cat((real[:, 1:], nothing), dim=1)
            neighbour = torch.where(self._looks_back(x.device), neighbour, following)
        return self.mix(x, neighbour)

    def mix(self, x: Float[Tensor, "B L D"], neighbour: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return x + self.share.to(x.dtype) * (neighbour - x)

    def _looks_back(self, device: torch.device) -> Bool[Tensor, " D"]:
        return torch.arange(self.d_model, device=device) % 2 == 0

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> LatestState:
        del max_length
        return LatestState(latest=torch.zeros(batch_size, 1, self.d_model, device=device, dtype=dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], LatestState]:
        assert isinstance(state, LatestState), "a state comes from initial_state"
        aligned = realigned(x, context.valid)
        if aligned is None:
            return self.mix(x, state.append(x)[:, :-1]), state
        both = state.append(aligned.x)
        state.latest = both.gather(1, aligned.num_real[:, None, None].expand(-1, -1, self.d_model))
        return aligned.back(self.mix(aligned.x, both[:, :-1])), state

    def costs(self, query: CostQuery) -> Costs:
        """No matrix product; autograd keeps the differences and, both ways, which channel looks where."""
        n, d = query.length, self.d_model
        which = 0 if self.causal else d
        return Costs.of(self, state_elements=d, activation_bytes=n * d * query.bytes_per_element + which)
