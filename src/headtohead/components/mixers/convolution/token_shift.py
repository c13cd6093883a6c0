"""Token shift: every token takes a share of its neighbour, channel by channel (Peng et al. 2023,
https://arxiv.org/abs/2305.13048)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.convolution.short_conv import LatestState
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document, unpadded_rows

# Every token's predecessor, for mixers and feed-forwards that look one token back (token shift, Peng et al. 2023,
# https://arxiv.org/abs/2305.13048).


def previous(
    x: Float[Tensor, "B L D"],
    document_starts: Bool[Tensor, "B L"] | None = None,
    latest: Float[Tensor, "B D"] | None = None,
) -> Float[Tensor, "B L D"]:
    """Return x_{t-1}; `latest` or zero stands before the first token, and zero before a document's first."""
    first = torch.zeros_like(x[:, :1]) if latest is None else latest[:, None].to(x.dtype)
    before = torch.cat((first, x[:, :-1]), dim=1)
    return before if document_starts is None else before.masked_fill(document_starts[..., None], 0.0)


def shifted(
    x: Float[Tensor, "B L D"], before: Float[Tensor, "B L D"], mix: Float[Tensor, "1 1 D"]
) -> Float[Tensor, "B L D"]:
    """mix x_t + (1 - mix) x_{t-1}, channel by channel."""
    return torch.lerp(before, x, mix.to(x.dtype))


class TokenShift(Mixer):
    """x_t + m (x_{t-1} - x_t) with a learned m for each channel, from 0 to 1/2 at the start; where both sides are
    visible, every other channel uses x_{t+1} instead."""

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
        documents = one_row_per_document(x, context)
        if documents is not None:
            return documents.back(self.read(documents.x, documents.valid))
        return self.read(x, context.valid)

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        """Mix rows with zeros before and after them; padding, on the right, counts as zero."""
        nothing = torch.zeros_like(x[:, :1])
        neighbour = torch.cat((nothing, x[:, :-1]), dim=1)
        if not self.causal:
            real = x if valid is None else x * valid[..., None]
            following = torch.cat((real[:, 1:], nothing), dim=1)
            neighbour = torch.where(self._shifts_back(x.device), neighbour, following)
        return self.mix(x, neighbour)

    def mix(self, x: Float[Tensor, "B L D"], neighbour: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return x + self.share.to(x.dtype) * (neighbour - x)

    def _shifts_back(self, device: torch.device) -> Bool[Tensor, " D"]:
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
        aligned = unpadded_rows(x, context.valid)
        if aligned is None:
            return self.mix(x, state.append(x)[:, :-1]), state
        both = state.append(aligned.x)
        state.latest = both.gather(1, aligned.num_real[:, None, None].expand(-1, -1, self.d_model))
        return aligned.back(self.mix(aligned.x, both[:, :-1])), state

    def costs(self, query: CostContext) -> Costs:
        """Return the costs without matrix products; autograd saves the differences and, in both directions, which
        channel looks where."""
        n, d = query.length, self.d_model
        which = 0 if self.causal else d
        return Costs.of(self, state_elements=d, activation_bytes=n * d * query.bytes_per_element + which)
