"""RWKV-6 "Finch" (Peng et al. 2024, https://arxiv.org/abs/2404.05892): tokens choose how fast each channel of the
memory decays, and how much of the token before every projection sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import GLA, FlaFunction, call_fla
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.mixers.linear.matrix_memory import ChunkedForm, MatrixMemory, MatrixMemoryState, MemoryInputs
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.chunked_recurrence import saved_elements
from headtohead.ranges import Width

SHIFTS = (1.0, 1.0, 1.0, 0.5, 0.5)
"""The powers by which w, k, v, r and g start to see less of the token before, from channel to channel."""


class Rwkv6(MatrixMemory):
    """S_t = diag(w_t) S_(t-1) + k_t v_t^T with w_t = exp(-exp(d_t)); the output is
    norm(S_(t-1)^T r_t + (r_t . u k_t) v_t) * g_t, times O. All of it is made of tokens mixed with the one before."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        shift_rank: Width = 32,
        decay_rank: Width = 64,
        chunks: ChunkedForm = ChunkedForm(),
    ) -> None:
        super().__init__(chunks, GLA)
        del causal, dropout  # one way always; no weights to drop
        self.d_model, self.num_heads, self.causal = d_model, num_heads, True
        self.head_width = equal_share(d_model, num_heads)
        self.shift_rank, self.decay_rank = shift_rank, decay_rank
        self.receptance, self.key = (ScoreLinear(d_model, d_model, bias=False) for _ in range(2))
        self.value, self.gate = (LinearMap(d_model, d_model, bias=False) for _ in range(2))
        self.shift_down = LinearMap(d_model, len(SHIFTS) * shift_rank, bias=False)
        self.shift_up = nn.ModuleList(LinearMap(shift_rank, d_model, bias=False) for _ in SHIFTS)
        self.decay_down = LinearMap(d_model, decay_rank, bias=False)
        self.decay_up = LinearMap(decay_rank, d_model, bias=False)
        self.output = ResidualLinear(d_model, d_model, bias=False)
        self.shift = nn.Parameter(torch.empty(1 + len(SHIFTS), d_model))
        self.decay_base, self.bonus, self.norm_weight, self.norm_bias = (
            nn.Parameter(torch.empty(d_model)) for _ in range(4)
        )
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Start as the published code starts its first layer."""
        channel = torch.arange(self.d_model)
        self.shift.copy_(1.0 - (channel / self.d_model) ** torch.tensor((1.0, *SHIFTS))[:, None])
        self.decay_base.copy_(5.0 * torch.linspace(0.0, 1.0, self.d_model) ** 0.7 - 6.0)
        self.bonus.copy_(0.1 * ((channel + 1) % 3 - 1))
        self.norm_weight.fill_(1.0)
        self.norm_bias.zero_()

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield self.shift

    def project(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        before: Float[Tensor, "B T E"] | None = None,
    ) -> MemoryInputs:
        first = torch.zeros_like(x[:, :1]) if before is None else before.to(x.dtype)
        shifted = torch.cat((first, x[:, :-1]), dim=1)
        if document_starts is not None:
            shifted = shifted.masked_fill(document_starts[..., None], 0.0)
        step = shifted - x
        own, *shares = self.shift.to(x.dtype).unbind(0)
        low = self.shift_down(x + step * own).tanh().chunk(len(SHIFTS), dim=-1)
        x_w, x_k, x_v, x_r, x_g = (
            x + step * (share + up(part)) for share, up, part in zip(shares, self.shift_up, low, strict=True)
        )
        r, k, v = self.receptance(x_r), self.key(x_k), self.value(x_v)
        decay = self.decay_up(self.decay_down(x_w).tanh()).to(at_least_float32(x.dtype)) + self.decay_base
        return MemoryInputs(
            q=split_heads(r, self.head_width),
            k=split_heads(k, self.head_width),
            v=split_heads(v, self.head_width),
            log_decay=split_heads(-decay.exp(), self.head_width),
            gate=F.silu(self.gate(x_g)),
            bonus=split_heads(r * k * self.bonus.to(r.dtype), self.head_width).sum(-1, keepdim=True),
            seen=x[:, -1:],
        )

    def recurred(
        self,
        parts: MemoryInputs,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K V"] | None = None,
    ) -> tuple[Float[Tensor, "B H L _"], Float[Tensor, "B H K _"]]:
        """Return what every token reads of the memory before it decays and before the token writes, and of itself."""
        y, before_last = super().recurred(_one_token_later(parts, document_starts), document_starts, state)
        y = y + _own(parts)
        if state is None:
            return y, before_last
        k, v, log_decay = (part[:, :, -1:].to(state.dtype) for part in (parts.k, parts.v, parts.log_decay))
        return y, before_last * log_decay.exp().mT + k.mT * v

    def project_output(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        assert parts.gate is not None, "project makes it"
        rows, eps = merge_heads(y), 1e-5 * self.head_width
        normed = F.group_norm(rows.flatten(0, 1), self.num_heads, self.norm_weight, self.norm_bias, eps)
        output: Tensor = self.output(normed.view_as(rows) * parts.gate)
        return output

    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        later = _one_token_later(parts, document_starts)
        inputs = {"q": later.q, "k": later.k, "v": later.v, "g": later.log_decay}
        return call_fla(kernel, inputs, document_starts, scale=1.0) + _own(parts)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MatrixMemoryState:
        del max_length
        width, before = self.head_width, torch.zeros(batch_size, 1, self.d_model, device=device, dtype=dtype)
        return self.empty(batch_size, width, width, before, device=device, dtype=dtype)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product writes and one reads, but the first token reads nothing, and
        nothing reads the last."""
        n, d = query.length, self.d_model
        ranks, memory = len(SHIFTS) * self.shift_rank + self.decay_rank, d * self.head_width
        return Costs.of(
            self,
            forward_flops=2 * n * d * (5 * d + 2 * ranks) + 4 * (n - 1) * memory,
            state_elements=memory + d,
            activation_bytes=self._saved_bytes(query, ranks, memory),
        )

    def _saved_bytes(self, query: CostContext, ranks: int, memory: int) -> int:
        """Count the mixed tokens and the inputs of gates, shares, the norm and the recurrence in the model's dtype; in
        float32 its decays and its states."""
        n, d, heads = query.length, self.d_model, self.num_heads
        own = n * (23 * d + ranks + heads)
        exact = 2 * n * d + saved_elements(n, self.chunk_size, memory=memory)
        return own * query.bytes_per_element + exact * max(4, query.bytes_per_element) + 8 * n * heads


def _own(parts: MemoryInputs) -> Float[Tensor, "B H L V"]:
    """Return what every token reads of itself."""
    assert parts.bonus is not None, "project makes it"
    return parts.bonus * parts.v


def _one_token_later(parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None) -> MemoryInputs:
    """Return what decays and what is written one token later, since a token reads the memory of those before it."""
    k, v, log_decay = (F.pad(part[:, :, :-1], (0, 0, 1, 0)) for part in (parts.k, parts.v, parts.log_decay))
    if document_starts is not None:
        k = k.masked_fill(document_starts[:, None, :, None], 0.0)
    return replace(parts, k=k, v=v, log_decay=log_decay)
