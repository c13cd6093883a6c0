"""These encodings bias the scores of attention by a function of the distance whose parameters are learned."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx

from headtohead.components.component import Grid, Position
from headtohead.components.costs import CostContext, Costs
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Positive

_LEAST = 0.01  # the authors' lower end of both parameters, below which a head would start without any distances


class Kerple(Position):
    """-r1 log(1 + r2 |query position - key position|), with r1 and r2 of each head, shared by all layers.

    It is the logarithmic kernel of Chi et al. 2022 (https://arxiv.org/abs/2205.09921). Its parameters are
    the logarithms of r1 and r2, which thus stay positive; the authors' code cuts r1 and r2 off at 0.01 instead.
    """

    biases_scores = True
    float32_parameters = ("log_strengths", "log_rates")

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        initial_strength: Positive = 2.0,
        initial_rate: Positive = 1.0,
    ) -> None:
        super().__init__()
        del d_model, max_length, causal, grid
        self.num_heads = num_heads
        self.initial_strength, self.initial_rate = initial_strength, initial_rate
        self.log_strengths, self.log_rates = (nn.Parameter(torch.empty(num_heads)) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter, highest in ((self.log_strengths, self.initial_strength), (self.log_rates, self.initial_rate)):
            nn.init.uniform_(parameter, 0.0, highest)
            with torch.no_grad():
                parameter.clamp_(min=min(_LEAST, highest)).log_()

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "#B H L M"]:
        del queries
        distance = (query_positions[:, None, :, None] - key_positions[:, None, None, :]).abs()
        exact = at_least_float32(self.log_rates.dtype)
        bias: Tensor = _LogBias.apply(  # type: ignore[no-untyped-call]
            self.log_strengths.to(exact), self.log_rates.to(exact), distance.to(exact)
        )
        return bias

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the bias and its distances, once for all layers."""
        pairs = query.length**2
        saved = pairs * query.bytes_per_biased_pair + self.bytes_of_bias(query, query.length, pairs)
        return Costs.of(self, activation_bytes=saved)

    def bytes_of_bias(self, query: CostContext, num_queries: int, num_pairs: int) -> int:
        """Return the bytes of the distances."""
        del num_queries
        return num_pairs * max(4, query.bytes_per_element) if self.bias_learns else 0


class _LogBias(torch.autograd.Function):
    """Saves the distances alone, where autograd would save two numbers of each head beside them; the backward pass
    computes those again."""

    @staticmethod
    def forward(ctx: FunctionCtx, log_strengths: Tensor, log_rates: Tensor, distance: Tensor) -> Tensor:
        ctx.save_for_backward(log_strengths, log_rates, distance)
        strengths, rates = (part.exp()[:, None, None] for part in (log_strengths, log_rates))
        return (rates * distance).log1p_().mul_(-strengths)

    @staticmethod
    def backward(ctx: BackwardCFunction, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch's stub declares one
        log_strengths, log_rates, distance = saved
        strengths, rates = log_strengths.exp(), log_rates.exp()[:, None, None]
        scaled = rates * distance
        of_strengths = (grad * scaled.log1p()).sum((0, 2, 3))
        of_rates = (grad * (scaled / (1 + scaled))).sum((0, 2, 3))
        return -strengths * of_strengths, -strengths * of_rates, None
