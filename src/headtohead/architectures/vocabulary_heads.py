"""Heads that make logits over a vocabulary: of the next token, of hidden tokens, and of a pair of sentences.

A head that writes a whole row from the vector of its last token, by an MLP on that vector and a position's encoding
(Poli et al. 2024, https://arxiv.org/abs/2403.17844, compression).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.architectures.architecture import Head
from headtohead.architectures.pooling import known_pooling, pool
from headtohead.components.block_parts import Norm
from headtohead.components.component import Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import ACTIVATIONS, KEEPS_OWN_OUTPUT, Activation, in_few_shapes
from headtohead.components.linear_maps import Readout, ReadoutLinear, linear, linear_costs
from headtohead.components.positions.absolute import waves
from headtohead.components.soft_cap import LogitRange, soft_capped
from headtohead.errors import UsageError


class VocabularyHead(Head, Readout):
    """A head whose logits are one matrix product with `weight`, perhaps with a factor and softly capped, so that a loss
    may make them chunk by chunk."""

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        tied_to: nn.Parameter | None,
        bias: bool,
        logits: LogitRange = LogitRange(),
    ) -> None:
        super().__init__()
        if tied_to is not None and tied_to.shape != (vocab_size, d_model):
            raise UsageError(
                f"tie_weights=true needs an embedding of shape ({vocab_size}, {d_model}), got {tuple(tied_to.shape)}: "
                "set tie_weights=false."
            )
        self.tied, self.cap, self.factor = tied_to is not None, logits.cap, logits.factor
        self.weight = tied_to if tied_to is not None else nn.Parameter(torch.empty(vocab_size, d_model))
        self.bias = nn.Parameter(torch.empty(vocab_size)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight unless it is tied; a tied weight is drawn by its embedding."""
        if not self.tied:
            nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def own_matrices(self) -> Iterator[Tensor]:
        """Yield the untied weight, which starts as every matrix does."""
        if not self.tied:
            yield self.weight

    def scaled(self, x: Tensor) -> Tensor:
        return super().scaled(x if self.factor == 1.0 else x * self.factor)

    @abstractmethod
    def transform(self, features: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        """Transform the features before the product."""

    def forward(
        self,
        features: Float[Tensor, "... D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "... V"]:
        del valid, token_types
        return soft_capped(linear(self.transform(features), self.weight, self.bias), self.cap)

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs; a tied weight is a parameter of the embedding."""
        vocab_size, d_model = self.weight.shape
        parameters = (0 if self.tied else vocab_size * d_model) + (vocab_size if self.bias is not None else 0)
        yield "head.weight", "unembedding", linear_costs(d_model, vocab_size, parameters, query)


class LanguageModel(VocabularyHead):
    """Logits of the next token; with `scale` they are times 1 / sqrt(d_model), as in T5 (Raffel et al. 2020,
    https://arxiv.org/abs/1910.10683), whose embedding is as large as its weights are."""

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        tied_to: nn.Parameter | None,
        bias: bool,
        scale: bool = False,
        logits: LogitRange = LogitRange(),
    ) -> None:
        super().__init__(d_model, vocab_size, tied_to=tied_to, bias=bias, logits=logits)
        self.factor *= d_model**-0.5 if scale else 1.0

    def transform(self, features: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return self.scaled(features)


FURTHER = "head.further."
"""The beginning of the names of the weights of further heads."""


class MultiTokenLanguageModel(LanguageModel):
    """The same, with further heads for the tokens after the next: each adds the SiLU of a linear map to the features,
    and all share the matrix onto the vocabulary (Gloeckle et al. 2024, https://arxiv.org/abs/2404.19737, with the
    residual heads of Cai et al. 2024, https://arxiv.org/abs/2401.10774).

    Calling it gives the logits of the next token alone: the further heads are for training.
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        num_future_tokens: int,
        tied_to: nn.Parameter | None,
        bias: bool,
        scale: bool = False,
        logits: LogitRange = LogitRange(),
    ) -> None:
        super().__init__(d_model, vocab_size, tied_to=tied_to, bias=bias, scale=scale, logits=logits)
        self.further = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(num_future_tokens - 1))

    def transforms(self, features: Float[Tensor, "N D"]) -> list[Float[Tensor, "N D"]]:
        """Return what the shared matrix reads for the next token, for the one after it, and so on."""
        return [self.transform(features), *(self.transform(features + F.silu(head(features))) for head in self.further)]

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs; the further heads have no part in the forward pass of a model that is used, and in training
        count as if every position had all its future tokens, also the last of a row."""
        d_model = self.weight.shape[1]
        for index in range(len(self.further)):
            costs = linear_costs(d_model, d_model, d_model * d_model + d_model, query)
            entering = Costs(activation_bytes=d_model * query.length * query.bytes_per_element)  # the SiLU
            yield f"head.further.{index}", "head", _in_training(costs + entering)
        for path, kind, costs in super().cost_rows(query):
            again = replace(_in_training(costs), parameters=0, active_parameters=0)
            yield path, kind, sum((again for _ in self.further), costs)


def _in_training(costs: Costs) -> Costs:
    """Return the costs of what only training computes."""
    return replace(costs, forward_flops=0)


class MaskedLanguageModel(VocabularyHead):
    """Dense, GELU (or another activation), norm, then logits of the hidden token (Devlin et al. 2019,
    https://arxiv.org/abs/1810.04805); the dense layer leads to the `width` of embeddings, where they have their own."""

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        norm: Callable[[int], Norm],
        tied_to: nn.Parameter | None,
        bias: bool = True,
        activation: Activation = "gelu",
        dense_bias: bool = True,
        logits: LogitRange = LogitRange(),
        width: int | None = None,
    ) -> None:
        width = width or d_model
        super().__init__(width, vocab_size, tied_to=tied_to, bias=bias, logits=logits)
        self.activation, self.act = activation, ACTIVATIONS[activation]
        self.dense = nn.Linear(d_model, width, bias=dense_bias)
        self.norm = norm(width)

    def transform(self, features: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        hidden = self.dense(features)
        hidden = in_few_shapes(self.act, hidden) if hidden.dim() == 2 else self.act(hidden)
        # Each token alone: which others are scored beside it must not matter to a norm that sums sequences up.
        normed = self.norm(hidden.reshape(-1, 1, hidden.shape[-1]), Context(causal=True)).view_as(hidden)
        return self.scaled(normed)

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        width, d_model = self.dense.weight.shape
        parameters = width * d_model + (0 if self.dense.bias is None else width)
        dense = linear_costs(d_model, width, parameters, query)
        saved = 0 if self.activation in KEEPS_OWN_OUTPUT else width * query.length * query.bytes_per_element
        yield "head.dense", "head", dense + Costs(activation_bytes=saved)
        yield "head.norm", "norm", replace(self.norm.costs(replace(query, causal=True)), state_elements=0)
        yield from super().cost_rows(query)


class MaskedLanguageModelAndPair(MaskedLanguageModel):
    """The same, and whether the second sentence follows the first, from one vector per sequence: dense, tanh, linear.

    Calling it gives the tokens' logits; those of the pair come from `pair_logits`.
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        norm: Callable[[int], Norm],
        tied_to: nn.Parameter | None,
        bias: bool = True,
        pooling: str = "cls",
        activation: Activation = "gelu",
        dense_bias: bool = True,
        logits: LogitRange = LogitRange(),
        width: int | None = None,
    ) -> None:
        super().__init__(
            d_model,
            vocab_size,
            norm=norm,
            tied_to=tied_to,
            bias=bias,
            activation=activation,
            dense_bias=dense_bias,
            logits=logits,
            width=width,
        )
        self.pooling = known_pooling(pooling)
        self.pooler = nn.Linear(d_model, d_model)
        self.pair = ReadoutLinear(d_model, 2)

    def pair_logits(
        self, features: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B 2"]:
        y: Tensor = self.pair(torch.tanh(self.pooler(pool(features, valid, self.pooling))))
        return y

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield the pair's costs once per sequence, however many tokens are hidden."""
        yield from super().cost_rows(query)
        d_model = self.pair.weight.shape[1]
        once = replace(query, length=1)
        yield "head.pooler", "head", linear_costs(d_model, d_model, d_model * d_model + d_model, once)
        yield "head.pair", "head", linear_costs(d_model, 2, 2 * d_model + 2, once)


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

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        vocab_size, width = self.linear.weight.shape
        saved = Costs(activation_bytes=width * query.length * query.bytes_per_element)
        for index, norm in enumerate(self.norms):
            assert isinstance(norm, Norm)
            yield f"head.norms.{index}", "norm", replace(norm.costs(replace(query, causal=True)), state_elements=0)
        for index in range(_NUM_LAYERS):
            yield f"head.dense.{index}", "head", linear_costs(width, width, width * width + width, query) + saved
        yield "head.linear", "unembedding", linear_costs(width, vocab_size, width * vocab_size + vocab_size, query)
