"""RWKV-7 "Goose" (Peng et al. 2025, https://arxiv.org/abs/2503.14456): a delta rule whose key to remove from, rate of
learning and decay are vectors that every token chooses. A mixer by itself, it does without the first layer's values."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import DIAGONAL_PLUS_LOW_RANK, FlaFunction, call_fla
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.mixers.linear.matrix_memory import ChunkedForm, MatrixMemory, MatrixMemoryState, MemoryInputs
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.chunked_recurrence import saved_elements
from headtohead.ranges import Width

STRONGEST_DECAY = math.exp(-0.5)
"""A channel keeps exp(-0.607) of itself at least."""
SHIFTS = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)
"""The pace at which, from channel to channel, the six inputs start to see less of the token before: r, w, k, v, a,
g."""


def low_rank(d_model: int, factor: float) -> int:
    """Return the published rank: a multiple of 32 near `factor` times the root of the width."""
    count: int = max(32, 32 * round(factor * d_model**0.5 / 32))
    return count


class Rwkv7(MatrixMemory):
    """S_t = (diag(w_t) - (a_t k'_t) k'_t^T) S_(t-1) + k_t v_t^T with k' of unit length; the output is
    (norm(S_t^T r_t) + (r_t . rho k_t) v_t) * g_t, times O. All of it is made of tokens mixed with the one before."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        decay_rank: Width | None = None,
        rate_rank: Width | None = None,
        gate_rank: Width | None = None,
        chunks: ChunkedForm = ChunkedForm(),
    ) -> None:
        super().__init__(chunks, DIAGONAL_PLUS_LOW_RANK)
        del causal, dropout  # one way always; no weights to drop
        self.d_model, self.num_heads, self.causal = d_model, num_heads, True
        self.head_width = equal_share(d_model, num_heads)
        self.decay_rank = low_rank(d_model, 2.5) if decay_rank is None else decay_rank
        self.rate_rank = low_rank(d_model, 2.5) if rate_rank is None else rate_rank
        self.gate_rank = low_rank(d_model, 5.0) if gate_rank is None else gate_rank
        self.receptance, self.key = (ScoreLinear(d_model, d_model, bias=False) for _ in range(2))
        self.value = LinearMap(d_model, d_model, bias=False)
        self.decay_down, self.decay_up = _through(d_model, self.decay_rank)
        self.rate_down, self.rate_up = _through(d_model, self.rate_rank)
        self.gate_down, self.gate_up = _through(d_model, self.gate_rank)
        self.output = ResidualLinear(d_model, d_model, bias=False)
        self.shift = nn.Parameter(torch.empty(len(SHIFTS), d_model))
        (
            self.decay_base,
            self.rate_base,
            self.removal,
            self.rate_in_key,
            self.bonus,
            self.norm_weight,
            self.norm_bias,
        ) = (nn.Parameter(torch.empty(d_model)) for _ in range(7))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Start as the published code starts its first layer."""
        position = torch.arange(self.d_model) / self.d_model
        ramp = torch.linspace(0.0, 1.0, self.d_model)
        in_head = torch.linspace(-1.0, 1.0, self.head_width).repeat(self.num_heads)
        zigzag = in_head * in_head.abs()
        self.shift.copy_(1.0 - position ** torch.tensor(SHIFTS)[:, None])
        self.decay_base.copy_(6.0 * ramp - 5.5 + 2.5 * zigzag)
        self.rate_base.copy_(0.4 * ramp - 0.39 + 0.3 * zigzag)
        self.removal.copy_(0.76 - 0.1 * ramp)
        self.rate_in_key.fill_(1.02)
        self.bonus.fill_(-0.04)
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
        x_r, x_w, x_k, x_v, x_a, x_g = (x + (shifted - x) * self.shift[:, None, None].to(x.dtype)).unbind(0)
        r, k, v = self.receptance(x_r), self.key(x_k), self.value(x_v)
        rate = (self.rate_up(self.rate_down(x_a)) + self.rate_base).sigmoid()
        exact = at_least_float32(x.dtype)
        decay = self.decay_up(self.decay_down(x_w).tanh()) + self.decay_base
        log_decay = split_heads(-STRONGEST_DECAY * decay.to(exact).sigmoid(), self.head_width)
        removal = F.normalize(split_heads(k * self.removal, self.head_width), dim=-1, eps=1e-6)
        k = k * (1.0 + (rate - 1.0) * self.rate_in_key)
        return MemoryInputs(
            q=split_heads(r, self.head_width),
            k=split_heads(k, self.head_width),
            v=split_heads(v, self.head_width),
            log_decay=log_decay,
            reads=-(removal * log_decay.neg().exp()),  # the key reads what was there before decay
            writes=removal * split_heads(rate, self.head_width),
            gate=self.gate_up(self.gate_down(x_g).sigmoid()),
            bonus=split_heads(r * k * self.bonus, self.head_width).sum(-1, keepdim=True),
            seen=x[:, -1:],
        )

    def project_output(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        assert parts.gate is not None and parts.bonus is not None, "project makes them"
        rows, eps = merge_heads(y), 1e-5 * self.head_width
        normed = F.group_norm(rows.flatten(0, 1), self.num_heads, self.norm_weight, self.norm_bias, eps)
        read = normed.view_as(rows) + merge_heads(parts.bonus * parts.v)
        output: Tensor = self.output(read * parts.gate)
        return output

    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        assert parts.reads is not None and parts.writes is not None, "project makes them"
        kind, decay = parts.v.dtype, parts.log_decay.exp()
        inputs = {"q": parts.q, "k": parts.k, "v": parts.v, "a": parts.reads * decay, "b": parts.writes}
        inputs = {name: part.to(kind) for name, part in inputs.items()}
        return call_fla(kernel, {**inputs, "gk": parts.log_decay}, document_starts, scale=1.0)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MatrixMemoryState:
        del max_length
        width, before = self.head_width, torch.zeros(batch_size, 1, self.d_model, device=device, dtype=dtype)
        return self.empty(batch_size, width, width, before, device=device, dtype=dtype)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product writes a value, one reads for the output; except for the first
        token, one reads at the key to remove from, and one writes that."""
        n, d = query.length, self.d_model
        ranks, memory = self.decay_rank + self.rate_rank + self.gate_rank, d * self.head_width
        return Costs.of(
            self,
            forward_flops=2 * n * d * (4 * d + 2 * ranks) + 2 * (4 * n - 2) * memory,
            state_elements=memory + d,
            activation_bytes=self._saved_bytes(query, ranks, memory),
        )

    def _saved_bytes(self, query: CostContext, ranks: int, memory: int) -> int:
        """Count the mixed tokens and the inputs of gates, rates, keys and the norm in the model's dtype; in
        float32 what the recurrence reads and solves, and its states."""
        n, d, heads = query.length, self.d_model, self.num_heads
        own = n * (22 * d + ranks + 3 * heads)
        exact = 4 * n * d + saved_elements(n, self.chunk_size, memory=memory, solved=2 * d)
        return own * query.bytes_per_element + exact * max(4, query.bytes_per_element) + 8 * n * heads


def _through(d_model: int, rank: int) -> tuple[LinearMap, LinearMap]:
    return LinearMap(d_model, rank, bias=False), LinearMap(rank, d_model, bias=False)
