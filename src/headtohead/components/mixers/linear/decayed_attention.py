"""Attention without softmax whose weights decay with distance, at a fixed rate in every head: retention (Sun et al.
2023, https://arxiv.org/abs/2307.08621) and lightning attention are its forms."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import SIMPLE_GLA, Accelerated, FastKernel, FlaKernel, call_fla
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.chunked_decay import (
    check_chunk_size,
    decay_matrix,
    decayed_sums,
    padded_length,
)
from headtohead.components.sequence_ops.ragged_rows import find_document_starts


@dataclass
class DecayedSums(State):
    """sum_s decay^(t-s) k_s^T v_s over the tokens read so far."""

    sums: Float[Tensor, "B H K P"] | None = None


class DecayedAttention(Accelerated, HasAttentionMaps):
    """f(sum_s decay^(t-s) (q_t k_s) v_s, x_t), summed in chunks."""

    sums_to_one = False
    reads_one_way: ClassVar[bool] = True

    def __init__(
        self, d_model: int, num_heads: int, head_width: int, value_width: int, chunk_size: int, kernel: FlaKernel
    ) -> None:
        """The widths are those of one head."""
        super().__init__()
        check_chunk_size(chunk_size)
        self.fast = FastKernel(kernel, SIMPLE_GLA)
        self.causal, self.d_model, self.num_heads, self.head_width = True, d_model, num_heads, head_width
        self.value_width, self.chunk_size = value_width, chunk_size
        keys, values = num_heads * head_width, num_heads * value_width
        self.query = ScoreLinear(d_model, keys, bias=False)
        self.key = ScoreLinear(d_model, keys, bias=False)
        self.value = LinearMap(d_model, values, bias=False)
        self.gate = LinearMap(d_model, values, bias=False)
        self.output = ResidualLinear(values, d_model, bias=False)

    @abstractmethod
    def project(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, in float32 at least; and values."""

    @abstractmethod
    def log_decay(self, like: Tensor) -> Float[Tensor, "1 H 1"]:
        """Return what the logarithm of a weight loses with every token, by head."""

    @abstractmethod
    def gated(self, y: Float[Tensor, "B H L P"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return what is written of the sums, which the token itself gates."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        log_decay, document_starts = self.log_decay(q), find_document_starts(context)
        if (kernel := self.fast.function(v)) is not None:
            inputs = {"q": q.to(v.dtype), "k": k.to(v.dtype), "v": v, "g": log_decay.expand(v.shape[:3])}
            return self.gated(call_fla(kernel, inputs, document_starts, scale=1.0).to(q.dtype), x)
        y, _ = self.sums(q, k, v, log_decay, document_starts=document_starts)
        return self.gated(y, x)

    def sums(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L P"],
        log_decay: Float[Tensor, "#B H #L"],
        *,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H K P"]]:
        return decayed_sums(q, k, v, log_decay, state=state, starts=document_starts, chunk_size=self.chunk_size)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the only map it has, whatever `causal` is."""
        del causal
        q, k, _ = self.project(x, context)
        with without_autocast(q):
            return (q @ k.mT) * decay_matrix(self.log_decay(q), find_document_starts(context), x.shape[1], q)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        _, _, v = self.project(x, context)
        with without_autocast(weights):
            y = weights @ v.to(weights.dtype)
        return self.gated(y, x)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> DecayedSums:
        del max_length
        shape = (batch_size, self.num_heads, self.head_width, self.value_width)
        return DecayedSums(0, torch.zeros(shape, device=device, dtype=at_least_float32(dtype)))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], DecayedSums]:
        assert isinstance(state, DecayedSums), "a state comes from initial_state"
        q, k, v = self.project(x, context)
        log_decay = self.log_decay(q)
        if context.valid is not None:  # padding adds nothing, and nothing is forgotten over it
            k, log_decay = k * context.valid[:, None, :, None], log_decay * context.valid[:, None]
        y, state.sums = self.sums(q, k, v, log_decay, state=state.sums)
        state.length += x.shape[1]
        return self.gated(y, x), state

    @abstractmethod
    def saved_elements(self, length: int, padded: int) -> tuple[int, int]:
        """Return the numbers that a row of so many tokens, padded to whole chunks, saves for the backward pass besides
        what its sums read: in the model's format and in float32."""

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product makes the sums, one reads them."""
        n, d, inner = query.length, self.d_model, self.num_heads * self.value_width
        sums = d * self.value_width
        rows, chunks = padded_length(n, self.chunk_size)
        decays = self.num_heads * (rows if rows > n else 1)
        own, exact = self.saved_elements(n, rows)
        exact += rows * (2 * d + inner) + chunks * sums + decays
        return Costs.of(
            self,
            forward_flops=4 * n * d * (d + inner) + 2 * n * d * inner + 4 * n * sums,
            state_elements=sums,
            activation_bytes=own * query.bytes_per_element + 4 * exact,
        )
