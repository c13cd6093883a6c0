"""A head that writes a whole row from the vector of its last token, by an MLP on that vector and a position's encoding
(Poli et al. 2024, https://arxiv.org/abs/2403.17844, compression)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.architectures.architecture import Head
from headtohead.architectures.pooling import pool
from headtohead.components.block_parts import Norm
from headtohead.components.component import Context
from headtohead.components.costs import CostQuery, Costs
from headtohead.components.linear_maps import ReadoutLinear, linear_costs
from headtohead.components.positions.absolute import waves
from headtohead.errors import UsageError

_BASE, _NUM_LAYERS = 10000.0, 2


class Reconstruction(Head):
    """Logits of the token at each position, from nothing but the last token's vector: sines and cosines of the position
    are added to it, then come two layers of norm, dense and GELU, a last norm, and the logits."""

    needs_all_logits = True

    def __init__(self, d_model: int, vocab_size: int, *, norm: Callable[[int], Norm]) -> None:
        super().__init__()
        if d_model % 2:
            raise UsageError(
                f"head=reconstruction adds pairs of sines and cosines, and model.d_model={d_model} is odd: choose an "
                "even width."
            )
        self.d_model = d_model
        self.norms = nn.ModuleList(norm(d_model) for _ in range(_NUM_LAYERS + 1))
        self.dense = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(_NUM_LAYERS))
        self.linear = ReadoutLinear(d_model, vocab_size)

    def forward(
        self,
        features: Float[Tensor, "B L D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L V"]:
        del token_types
        if valid is None:
            positions = torch.arange(features.shape[1], device=features.device).unsqueeze(0)
        else:
            positions = (valid.long().cumsum(1) - 1).clamp(min=0)
        hidden = pool(features, valid, "last").unsqueeze(1) + waves(positions, self.d_model, _BASE, features.dtype)
        for index, dense in enumerate(self.dense):
            hidden = F.gelu(dense(self._normed(index, hidden)))
        y: Tensor = self.linear(self._normed(_NUM_LAYERS, hidden))
        return y

    def _normed(self, index: int, hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Normalise each position alone: which others there are must not matter to a norm that sums sequences up."""
        normed: Tensor = self.norms[index](hidden.reshape(-1, 1, self.d_model), Context(causal=True))
        return normed.view_as(hidden)

    def cost_rows(self, query: CostQuery) -> Iterator[tuple[str, str, Costs]]:
        vocab_size, width = self.linear.weight.shape
        saved = Costs(activation_bytes=width * query.length * query.bytes_per_element)
        for index, norm in enumerate(self.norms):
            assert isinstance(norm, Norm)
            yield f"head.norms.{index}", "norm", replace(norm.costs(replace(query, causal=True)), state_elements=0)
        for index in range(_NUM_LAYERS):
            yield f"head.dense.{index}", "head", linear_costs(width, width, width * width + width, query) + saved
        yield "head.linear", "unembedding", linear_costs(width, vocab_size, width * vocab_size + vocab_size, query)
