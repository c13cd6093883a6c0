"""RWKV-4's time mixing: a weighted mean of values with decaying weights, at a rate of its own in each channel, behind a
gate (Peng et al. 2023, https://arxiv.org/abs/2305.13048); parameters are laid out as published.

E inner channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps, visible_pairs, weighted_values
from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.convolution.token_shift import previous, shifted
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.components.sequence_ops.scan import in_float32
from headtohead.components.sequence_ops.wkv import NOTHING, WkvSums, wkv
from headtohead.ranges import Multiple


@dataclass
class Rwkv4State(State):
    """The sums of all channels, and the token before."""

    values: Float[Tensor, "B E"] | None = None
    weights: Float[Tensor, "B E"] | None = None
    scale: Float[Tensor, "B E"] | None = None
    latest: Float[Tensor, "B D"] | None = None

    def sums(self) -> WkvSums:
        assert self.values is not None and self.weights is not None and self.scale is not None
        return WkvSums(self.values, self.weights, self.scale)


class Rwkv4(Mixer, HasAttentionMaps):
    """sigmoid(r_t) times the mean of v_s, weights exp((t - 1 - s) w + k_s) and exp(u + k_t), mapped back to D."""

    reads_one_way = True

    def __init__(
        self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, expand: Multiple = 1.0
    ) -> None:
        super().__init__()
        del num_heads, causal, dropout
        self.causal, self.d_model, self.width = True, d_model, int(expand * d_model)
        self.time_decay = nn.Parameter(torch.empty(self.width))
        self.time_first = nn.Parameter(torch.empty(self.width))
        self.time_mix_key = nn.Parameter(torch.empty(1, 1, d_model))
        self.time_mix_value = nn.Parameter(torch.empty(1, 1, d_model))
        self.time_mix_receptance = nn.Parameter(torch.empty(1, 1, d_model))
        self.key = LinearMap(d_model, self.width, bias=False)
        self.value = LinearMap(d_model, self.width, bias=False)
        self.receptance = LinearMap(d_model, self.width, bias=False)
        self.output = ResidualLinear(self.width, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start like a layer in the middle of the paper's stack: slow channels and fast ones; later channels look back
        less."""
        channel = torch.arange(self.width, device=self.time_decay.device)
        position = torch.arange(self.d_model, device=self.time_decay.device) / self.d_model
        with torch.no_grad():
            self.time_decay.copy_(8 * (channel / max(1, self.width - 1)) ** 1.35 - 5)
            self.time_first.copy_(math.log(0.3) + 0.5 * ((channel + 1) % 3 - 1))
            self.time_mix_key.copy_(position**0.5)
            self.time_mix_value.copy_(position**0.5 + 0.15)
            self.time_mix_receptance.copy_(position**0.25)

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield from (self.time_mix_key, self.time_mix_value, self.time_mix_receptance)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        document_starts = find_document_starts(context)
        k, v, r = self.project(x, previous(x, document_starts))
        y: Tensor = self.output(r * self.mean(k, v, document_starts))
        return y

    def project(
        self, x: Float[Tensor, "B L D"], before: Float[Tensor, "B L D"]
    ) -> tuple[Float[Tensor, "B L E"], Float[Tensor, "B L E"], Float[Tensor, "B L E"]]:
        """Return keys, values and gates, each from a token and its predecessor."""
        k = self.key(shifted(x, before, self.time_mix_key))
        v = self.value(shifted(x, before, self.time_mix_value))
        return k, v, torch.sigmoid(self.receptance(shifted(x, before, self.time_mix_receptance)))

    def mean(
        self, k: Float[Tensor, "B L E"], v: Float[Tensor, "B L E"], document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B L E"]:
        return wkv(self.log_decay(), self.time_first, k, v, document_starts=document_starts)[0]

    def log_decay(self) -> Float[Tensor, " E"]:
        """Return w, always below 0."""
        return -in_float32(self.time_decay).exp()

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the weights of every channel; the recurrence has no other direction."""
        del causal
        document_starts = find_document_starts(context)
        k, _, _ = self.project(x, previous(x, document_starts))
        with without_autocast(x):
            k = in_float32(k)
            position = torch.arange(x.shape[1], device=x.device)
            gaps = position[:, None] - position - 1
            scores = self.log_decay()[:, None, None] * gaps + k.mT[:, :, None]
            own = k + in_float32(self.time_first)
            scores = torch.where(gaps == -1, own.mT[:, :, None], scores)
            return scores.masked_fill(~visible_pairs(k, document_starts), float("-inf")).softmax(-1)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        _, v, r = self.project(x, previous(x, find_document_starts(context)))
        y: Tensor = self.output(r * weighted_values(weights, in_float32(v)).to(v.dtype))
        return y

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> Rwkv4State:
        del max_length
        exact_dtype = at_least_float32(dtype)
        values, weights = (torch.zeros(batch_size, self.width, device=device, dtype=exact_dtype) for _ in range(2))
        latest = torch.zeros(batch_size, self.d_model, device=device, dtype=dtype)
        return Rwkv4State(0, values, weights, torch.full_like(values, NOTHING), latest)

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], Rwkv4State]:
        assert isinstance(state, Rwkv4State), "a state comes from initial_state"
        if context.valid is not None:
            x = x.masked_fill(~context.valid[..., None], 0.0)
        k, v, r = self.project(x, previous(x, None, state.latest))
        if context.valid is not None:  # padding is on the left, where there is nothing to fade yet
            k = in_float32(k).masked_fill(~context.valid[..., None], NOTHING)
        y, last = wkv(self.log_decay(), self.time_first, k, v, state=state.sums())
        state.values, state.weights, state.scale = last.values, last.weights, last.scale
        state.latest = x[:, -1]
        state.length += x.shape[1]
        return self.output(r * y), state

    def costs(self, query: CostContext) -> Costs:
        n, d, e = query.length, self.d_model, self.width
        return Costs.of(
            self,
            forward_flops=8 * n * d * e,
            state_elements=3 * e + d,
            activation_bytes=(n * 5 * (d + e) + 4 * e) * query.bytes_per_element,
        )
