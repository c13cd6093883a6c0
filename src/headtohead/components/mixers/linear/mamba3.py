"""Mamba-3 (Lahoti et al. 2026, https://arxiv.org/abs/2603.15569): a state space that also writes what the token before
brought (the trapezoidal rule), and whose states rotate by angles that tokens choose. One input and one output a head.

E inner channels in H heads of width P, N states, of which 2 A rotate in pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.attention.softmax_attention import merge_heads, split_heads
from headtohead.components.mixers.recurrent.mamba import start_steps
from headtohead.components.norms import RmsScale
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.chunked_decay import (
    check_chunk_size,
    decay_matrix,
    decayed_sums,
    padded_length,
)
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.errors import UsageError
from headtohead.ranges import Multiple, Positive, Share, Width

LEAST_STRENGTH = 1e-4
"""A step of one lets through exp(-0.0001) at most."""


@dataclass
class Mamba3State(State):
    """The states of all heads, what the last token wrote by and wrote, and how far the states have turned."""

    hidden: Float[Tensor, "B H N P"] | None = None
    key: Float[Tensor, "B H 1 N"] | None = None
    value: Float[Tensor, "B H 1 P"] | None = None
    angle: Float[Tensor, "B H A"] | None = None


@dataclass(frozen=True)
class Mamba3Selection:
    """The token-dependent parameters, all but value and gate in float32 at least."""

    value: Float[Tensor, "B H L P"]
    gate: Float[Tensor, "B L E"]
    log_decay: Float[Tensor, "B H L"]
    own: Float[Tensor, "B H L"]
    """The share of itself that a token writes."""
    previous: Float[Tensor, "B H L"]
    """The share of the token before that it writes, besides what that one wrote itself."""
    B: Float[Tensor, "B H L N"]
    C: Float[Tensor, "B H L N"]
    angle: Float[Tensor, "B H A"]
    """The angles by which the states have turned after the last token."""


class Mamba3(Mixer, HasAttentionMaps):
    """h_t = a_t h_(t-1) + (1 - l_t) dt_t a_t B_(t-1) v_(t-1) + l_t dt_t B_t v_t with a_t = exp(dt_t A_t), and
    y_t = C_t h_t + D v_t, gated; B and C are normed, shifted by a bias, and rotated by the summed angles."""

    no_mup_rule = "state-space models need rules of their own (https://openreview.net/forum?id=aQv5AbN1wF)"
    sums_to_one = False
    reads_one_way: ClassVar[bool] = True

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        state: Width = 128,
        expand: Multiple = 2.0,
        head_width: Width | None = None,
        rotated: Share = 0.5,
        eps: Positive = 1e-5,
        chunk_size: Width = 64,
    ) -> None:
        super().__init__()
        del causal, dropout  # it reads from left to right, and has no weights to drop
        check_chunk_size(chunk_size)
        self.causal, self.d_model, self.width, self.state = True, d_model, int(expand * d_model), state
        self.head_width = self.width // num_heads if head_width is None else head_width
        self.num_heads, self.chunk_size = self.width // self.head_width, chunk_size
        if self.num_heads * self.head_width != self.width:
            field = f"num_heads={num_heads}" if head_width is None else f"head_width={head_width}"
            raise UsageError(f"{field} does not divide mamba3's {self.width} inner channels: choose a divisor")
        self.num_angles = int(rotated * state) // 2
        if self.num_angles < 1:
            raise UsageError(f"rotated={rotated:g} of state={state} holds not one pair of states: choose more of them")
        self.parts = [self.width, self.width, state, state, *3 * [self.num_heads], self.num_angles]
        self.in_proj = LinearMap(d_model, sum(self.parts), bias=False)
        self.B_norm, self.C_norm = RmsScale(state, eps=eps), RmsScale(state, eps=eps)
        self.B_bias, self.C_bias = (nn.Parameter(torch.empty(self.num_heads, state)) for _ in range(2))
        self.dt_bias, self.D = (nn.Parameter(torch.empty(self.num_heads)) for _ in range(2))
        self.out_proj = ResidualLinear(self.width, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw steps evenly on a logarithmic scale; biases and D are 1, as published."""
        start_steps(self.dt_bias)
        for ones in (self.B_bias, self.C_bias, self.D):
            nn.init.ones_(ones)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        chosen = self.select(x)
        return self.write(self.read(chosen, find_document_starts(context))[0], chosen)

    def select(
        self, x: Float[Tensor, "B L D"], state: Mamba3State | None = None, valid: Bool[Tensor, "B L"] | None = None
    ) -> Mamba3Selection:
        """Compute the token-dependent parameters; padding neither writes nor turns nor forgets."""
        gate, value, B, C, step, strength, share, angle = self.in_proj(x).split(self.parts, dim=-1)
        exact = at_least_float32(x.dtype)
        dt = F.softplus(step.to(exact) + self.dt_bias.to(exact)).mT
        if valid is not None:
            value, dt = value.masked_fill(~valid[..., None], 0.0), dt.masked_fill(~valid[:, None], 0.0)
        share = share.to(exact).sigmoid().mT
        turned = (dt[..., None] * (math.pi * angle.to(exact).tanh())[:, None]).cumsum(2)
        if state is not None and state.angle is not None:
            turned = turned + state.angle[:, :, None]
        rotation = torch.polar(torch.ones_like(turned), turned)
        B, C = (
            self._rotated(norm(part)[:, None] + bias[:, None].to(part.dtype), rotation)
            for norm, part, bias in ((self.B_norm, B, self.B_bias), (self.C_norm, C, self.C_bias))
        )
        log_decay = -F.softplus(strength.to(exact)).clamp(min=LEAST_STRENGTH).mT * dt
        value = split_heads(value, self.head_width)
        return Mamba3Selection(value, gate, log_decay, share * dt, (1 - share) * dt, B, C, turned[:, :, -1])

    def _rotated(self, x: Float[Tensor, "B H L N"], rotation: Tensor) -> Float[Tensor, "B H L N"]:
        """Rotate the first channels in pairs of neighbours by complex numbers of length 1."""
        rotated, rest = x.to(rotation.real.dtype).split([2 * self.num_angles, self.state - 2 * self.num_angles], -1)
        pairs = torch.view_as_complex(rotated.unflatten(-1, (-1, 2)).contiguous())
        return torch.cat((torch.view_as_real(pairs * rotation).flatten(-2), rest), dim=-1)

    def read(
        self,
        chosen: Mamba3Selection,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H N P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H N P"]]:
        """Return what the tokens read of the states, and the last states.

        A token is written by itself and again by the next one: for all tokens but itself, both at once.
        """
        again = F.pad(chosen.previous[..., 1:], (0, 1))
        v = chosen.value.to(again.dtype)
        keys = chosen.B * (chosen.own + again)[..., None]
        y, last = decayed_sums(
            chosen.C, keys, v, chosen.log_decay, state=state, starts=document_starts, chunk_size=self.chunk_size
        )
        return y - (again * (chosen.C * chosen.B).sum(-1))[..., None] * v, last

    def write(self, y: Float[Tensor, "B H L P"], chosen: Mamba3Selection) -> Float[Tensor, "B L D"]:
        y = y + self.D.to(y.dtype)[:, None, None] * chosen.value
        output: Tensor = self.out_proj(merge_heads(y).to(chosen.gate.dtype) * F.silu(chosen.gate))
        return output

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the only map it has, whatever `causal` is."""
        del causal
        chosen, document_starts = self.select(x), find_document_starts(context)
        again = F.pad(chosen.previous[..., 1:], (0, 1))
        with without_autocast(again):
            scores = chosen.C @ chosen.B.mT
        written = (chosen.own + again)[:, :, None] - torch.diag_embed(again)
        return scores * written * decay_matrix(chosen.log_decay, document_starts, x.shape[1], again)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        del context
        chosen = self.select(x)
        with without_autocast(weights):
            y = weights @ chosen.value.to(weights.dtype)
        return self.write(y, chosen)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> Mamba3State:
        del max_length
        heads, n, p, exact = self.num_heads, self.state, self.head_width, at_least_float32(dtype)
        shapes = ((heads, n, p), (heads, 1, n), (heads, 1, p), (heads, self.num_angles))
        return Mamba3State(0, *(torch.zeros(batch_size, *shape, device=device, dtype=exact) for shape in shapes))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], Mamba3State]:
        assert isinstance(state, Mamba3State), "a state comes from initial_state"
        assert state.hidden is not None and state.key is not None and state.value is not None
        chosen = self.select(x, state, context.valid)
        before = state.hidden + chosen.previous[..., :1, None] * state.key.mT * state.value
        y, state.hidden = self.read(chosen, state=before)
        state.key, state.value = chosen.B[:, :, -1:], chosen.value[:, :, -1:].to(before.dtype)
        state.angle, state.length = chosen.angle, state.length + x.shape[1]
        return self.write(y, chosen), state

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product reads the states, and two write, but for the first token."""
        n, d, e, s, heads = query.length, self.d_model, self.width, self.state, self.num_heads
        rows, chunks = padded_length(n, self.chunk_size)
        saved = n * (d + sum(self.parts) + 3 * e)
        exact = rows * (2 * heads * s + e + heads) + chunks * e * s
        queries = heads * s if rows > n else 0  # chunks that need padding have a copy
        exact += n * (queries + heads * s + 10 * heads + (6 * heads + 2) * self.num_angles + 2)
        return Costs.of(
            self,
            forward_flops=2 * n * d * sum(self.parts) + 2 * n * e * d + 2 * (3 * n - 1) * e * s,
            state_elements=e * s + heads * s + e + heads * self.num_angles,
            activation_bytes=saved * query.bytes_per_element + exact * max(4, query.bytes_per_element),
        )
