"""Token mixing by a small network along the sequence, the same for every channel: MLP-Mixer (Tolstikhin et al. 2021,
https://arxiv.org/abs/2105.01601)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, device, dtype, nn

from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document
from headtohead.errors import UsageError
from headtohead.ranges import Multiple


class MlpMixer(Mixer):
    """y = W2 gelu(W1 x), where x has a row for each position up to `max_length`, and W1 `multiple` times as many.

    Padding counts as zero, as do the positions that a shorter row does not have.
    """

    no_mup_rule = "no rule is published for networks along the sequence"
    can_be_causal = False
    needs_length = True
    max_length: int

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        max_length: int | None,
        dropout: float = 0.0,
        multiple: Multiple = 2.0,
    ) -> None:
        super().__init__()
        del num_heads, dropout
        if causal:
            raise UsageError(
                "mixer=mlp_mixer mixes all tokens at once, and cannot be causal: use another mixer, "
                "model=vision_transformer or model=encoder_only"
            )
        if max_length is None:
            raise UsageError(
                "mixer=mlp_mixer has a weight for every place and needs to know how many: set model.max_length"
            )
        self.d_model, self.max_length, self.causal = d_model, max_length, False
        self.hidden = max(1, round(multiple * max_length))
        self.up = nn.Linear(max_length, self.hidden)
        self.down = nn.Linear(self.hidden, max_length)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = one_row_per_document(x, context)
        if documents is not None:
            return documents.back(self.along(documents.x * documents.valid[..., None]))
        return self.along(x if context.valid is None else x * context.valid[..., None])

    def along(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Mix the rows of each channel."""
        length = x.shape[1]
        if length > self.max_length:
            raise UsageError(
                f"a sequence of {length} tokens is longer than the max_length={self.max_length} that mixer=mlp_mixer "
                "has weights for: set model.max_length higher and train again, or use another mixer"
            )
        hidden = F.gelu(F.linear(x.mT, self.up.weight[:, :length], self.up.bias))
        return F.linear(hidden, self.down.weight[:length], self.down.bias[:length]).mT

    def initial_state(self, batch_size: int, max_length: int, *, device: device, dtype: dtype) -> State:
        del batch_size, max_length, device, dtype
        raise UsageError("mixer=mlp_mixer reads whole sequences and cannot decode step by step: use another mixer")

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        del x, state, context
        raise UsageError("mixer=mlp_mixer reads whole sequences and cannot decode step by step: use another mixer")

    def costs(self, query: CostContext) -> Costs:
        n, d, hidden = query.length, self.d_model, self.hidden
        return Costs.of(
            self,
            forward_flops=4 * n * hidden * d,
            activation_bytes=(n * d + 2 * hidden * d) * query.bytes_per_element,
        )
