"""Layer norm whose gain and shift follow from a summary of the sequence itself (Kim et al. 2017, dynamic layer
normalisation, https://arxiv.org/abs/1707.06065)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.block_parts import Norm
from headtohead.components.component import Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Positive, Width


@dataclass
class SummaryState(State):
    """The sum of the summaries of all tokens so far, and how many of these were real."""

    total: Float[Tensor, "B P"] | None = None
    count: Int[Tensor, "B 1"] | None = None


class AdaptiveNorm(Norm):
    """normed * (weight + m G) + (bias + m H), where m is the mean of tanh(normed R + r) over the tokens of the document
    that may be seen: those up to the token in causal stacks, all of them in others.

    G and H start at zero, so that it starts as layer norm.
    """

    def __init__(self, d_model: int, *, summary_width: Width = 16, eps: Positive = 1e-5) -> None:
        super().__init__()
        self.d_model, self.summary_width, self.eps = d_model, summary_width, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.reader = nn.Parameter(torch.empty(summary_width, d_model))
        self.reader_bias = nn.Parameter(torch.zeros(summary_width))
        self.modulation = nn.Parameter(torch.zeros(2 * d_model, summary_width))
        nn.init.normal_(self.reader, std=d_model**-0.5)

    def reset_parameters(self) -> None:
        """Reset gains and biases; the initialisation draws the reader as any other matrix."""
        nn.init.ones_(self.weight)
        for parameter in (self.bias, self.reader_bias, self.modulation):
            nn.init.zeros_(parameter)

    def own_matrices(self) -> Iterator[Tensor]:
        yield self.reader

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        normed, summary = self._read(x)
        return self._modulated(normed, pooled(summary, context))

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> SummaryState:
        exact = at_least_float32(dtype)
        return SummaryState(
            total=torch.zeros(batch_size, self.summary_width, device=device, dtype=exact),
            count=torch.zeros(batch_size, 1, device=device, dtype=torch.long),
        )

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], SummaryState]:
        assert isinstance(state, SummaryState) and state.total is not None and state.count is not None
        normed, summary = self._read(x)
        real = _real(summary, context)
        totals = state.total[:, None] + (summary * real).cumsum(1)
        counts = state.count[:, None] + real.cumsum(1)
        after = SummaryState(state.length + x.shape[1], totals[:, -1], counts[:, -1])
        return self._modulated(normed, totals / counts.clamp(min=1)), after

    def _read(self, x: Float[Tensor, "B L D"]) -> tuple[Float[Tensor, "B L D"], Float[Tensor, "B L P"]]:
        """Return the normalised tokens and their contributions to the summary, in float32 at least."""
        normed = F.layer_norm(x, (self.d_model,), eps=self.eps)
        summary = torch.tanh(F.linear(normed, self.reader, self.reader_bias))
        return normed, summary.to(at_least_float32(summary.dtype))

    def _modulated(self, normed: Float[Tensor, "B L D"], mean: Float[Tensor, "B M P"]) -> Float[Tensor, "B L D"]:
        gain, shift = F.linear(mean.to(normed.dtype), self.modulation).chunk(2, dim=-1)
        return normed * (self.weight + gain) + (self.bias + shift)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs: autograd saves the input with its mean and spread, the normalised tokens, their
        contributions and which of these count, and for every mean itself, its count and its gains: one per token in
        causal stacks, else one."""
        n, d, p, element = query.length, self.d_model, self.summary_width, query.bytes_per_element
        num_means = n if query.causal else 1
        return Costs.of(
            self,
            forward_flops=2 * n * d * p + 4 * num_means * d * p,
            state_elements=p,
            activation_bytes=n * ((2 * d + p) * element + 16) + num_means * ((d + p) * element + 8),
        )


def pooled(summary: Float[Tensor, "B L P"], context: Context) -> Float[Tensor, "B M P"]:
    """Return for every token the mean over the real tokens that it may know: those of its document, and in causal
    stacks none after it. One mean serves all tokens where all know the same."""
    real = _real(summary, context)
    if context.segments is not None:
        return _pooled_by_document(summary * real, real, context.segments, causal=context.causal)
    if context.causal:
        return (summary * real).cumsum(1) / real.cumsum(1).clamp(min=1)
    return (summary * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


def _real(summary: Float[Tensor, "B L P"], context: Context) -> Int[Tensor, "#B L 1"]:
    """Return 1 at real tokens and 0 at padding."""
    if context.valid is None:
        return torch.ones(1, summary.shape[1], 1, dtype=torch.long, device=summary.device)
    return context.valid[..., None].long()


def _pooled_by_document(
    summary: Float[Tensor, "B L P"], real: Int[Tensor, "#B L 1"], segments: Int[Tensor, "B L"], *, causal: bool
) -> Float[Tensor, "B L P"]:
    """Pool by differences of running sums, in float64: those of a long row are far larger than a short document's
    own."""
    totals, counts = summary.double().cumsum(1), real.expand(len(summary), -1, -1).cumsum(1)
    first, last = _borders(segments)
    upto = torch.arange(segments.shape[1], device=segments.device)[None].expand_as(segments) if causal else last
    sums, numbers = (_between(running, first, upto) for running in (totals, counts))
    return (sums / numbers.clamp(min=1)).to(summary.dtype)


def _borders(segments: Int[Tensor, "B L"]) -> tuple[Int[Tensor, "B L"], Int[Tensor, "B L"]]:
    """Return for every token the positions of the first and the last token of its document, which is contiguous."""
    length = segments.shape[1]
    positions = torch.arange(length, device=segments.device).expand_as(segments)
    changes: Bool[Tensor, "B L-1"] = segments[:, 1:] != segments[:, :-1]
    first = torch.where(F.pad(changes, (1, 0), value=True), positions, 0).cummax(1).values
    last = torch.where(F.pad(changes, (0, 1), value=True), positions, length - 1).flip(1).cummin(1).values.flip(1)
    return first, last


def _between(
    running: Float[Tensor, "B L P"] | Int[Tensor, "B L P"], first: Int[Tensor, "B L"], last: Int[Tensor, "B L"]
) -> Tensor:
    """Return the sums of the summed values from the first to the last position, both included."""
    before = F.pad(running, (0, 0, 1, 0))
    wide = running.shape[-1]
    return running.gather(1, last[..., None].expand(-1, -1, wide)) - before.gather(
        1, first[..., None].expand(-1, -1, wide)
    )
