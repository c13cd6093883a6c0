"""S4D: a state space for every channel, diagonal, the same for all tokens (Gu et al. 2022,
https://arxiv.org/abs/2206.11893): a long convolution to train, a recurrence to decode.

N states of each channel: P = N/2 complex ones, whose conjugates are the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.attention_maps import HasAttentionMaps, visible_pairs, weighted_values
from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import ResidualLinear
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.fft_convolution import convolved
from headtohead.components.sequence_ops.ragged_rows import find_document_starts, one_row_per_document
from headtohead.components.sequence_ops.scan import in_float32
from headtohead.errors import UsageError
from headtohead.ranges import Range

LEAST_STEP, MOST_STEP = 1e-3, 1e-1
Start = Literal["lin", "inv"]


@dataclass
class S4dState(State):
    """The complex states of all channels, real part and imaginary part."""

    hidden: Float[Tensor, "B D P 2"] | None = None


class S4d(Mixer, HasAttentionMaps):
    """h_t = exp(dt A) h_{t-1} + (exp(dt A) - 1) / A x_t, y_t = 2 Re(C h_t) + skip x_t, then GELU and a linear map.

    `start` chooses the initial A: "lin", -1/2 + i pi n, or "inv", -1/2 + i N/pi (N / (2n + 1) - 1). `glu` gates the
    linear map, as the paper does.
    """

    no_mup_rule = "state-space models need rules of their own (https://openreview.net/forum?id=aQv5AbN1wF)"
    reads_one_way = True
    sums_to_one = False
    keeps_float32 = True
    float32_parameters = ("log_step", "log_decay", "frequency")

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        state: Annotated[int, Range(2, 1_048_576, only="even")] = 64,
        start: Start = "lin",
        glu: bool = True,
    ) -> None:
        super().__init__()
        del num_heads, causal, dropout
        if state < 2 or state % 2:
            raise UsageError(f"state={state} is not a number of states in conjugate pairs: use 2, 4, 6 ...")
        if start not in ("lin", "inv"):
            raise UsageError(f"start={start} is unknown: choose lin or inv")
        self.causal, self.d_model, self.state, self.start = True, d_model, state, start
        self.log_step = nn.Parameter(torch.empty(d_model))
        self.log_decay = nn.Parameter(torch.empty(d_model, state // 2))
        self.frequency = nn.Parameter(torch.empty(d_model, state // 2))
        self.C = nn.Parameter(torch.empty(d_model, state // 2, 2))
        self.skip = nn.Parameter(torch.empty(d_model))
        self.output = ResidualLinear(d_model, 2 * d_model if glu else d_model)
        self.glu = glu
        self.reset_parameters()

    def reset_parameters(self) -> None:
        n = torch.arange(self.state // 2, device=self.C.device)
        imaginary = math.pi * n if self.start == "lin" else self.state / math.pi * (self.state / (2 * n + 1) - 1)
        nn.init.uniform_(self.log_step, math.log(LEAST_STEP), math.log(MOST_STEP))
        nn.init.constant_(self.log_decay, math.log(0.5))
        with torch.no_grad():
            self.frequency.copy_(imaginary.expand_as(self.frequency))
        nn.init.normal_(self.C, std=0.5**0.5)
        nn.init.normal_(self.skip)

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield from (self.log_decay, self.frequency)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = one_row_per_document(x, context)
        if documents is not None:
            return documents.back(self.over_sequence(documents.x))
        return self.over_sequence(x)

    def over_sequence(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Process rows with nothing before them."""
        with without_autocast(x):
            y = convolved(x, self.kernel(x.shape[1]))
        return self.write(y, x)

    def rates(self) -> tuple[Float[Tensor, "D P"], Float[Tensor, "D P"]]:
        """Return dt A, real part and imaginary part."""
        step = in_float32(self.log_step).exp()[:, None]
        return -step * in_float32(self.log_decay).exp(), step * in_float32(self.frequency)

    def powers(self, exponents: Float[Tensor, " T"]) -> Float[Tensor, "D T P 2"]:
        """Return exp(dt A) to these powers."""
        real, imaginary = (rate[:, None] * exponents[:, None] for rate in self.rates())
        return real.exp()[..., None] * torch.stack((imaginary.cos(), imaginary.sin()), dim=-1)

    def inputs(self) -> Float[Tensor, "D P 2"]:
        """Return the input's factor (exp(dt A) - 1) / A; in float64, since the difference and its gradient lose most
        digits in float32 where dt A is small."""
        step, decay, frequency = (t.double() for t in (self.log_step, self.log_decay, self.frequency))
        A = torch.stack((-decay.exp(), frequency), dim=-1)
        real, imaginary = (step.exp()[:, None, None] * A).unbind(-1)
        grown = real.exp()[..., None] * torch.stack((imaginary.cos(), imaginary.sin()), dim=-1)
        one = A.new_tensor([1.0, 0.0])
        brought = product(grown - one, A * A.new_tensor([1.0, -1.0])) / A.square().sum(-1, keepdim=True)
        return brought.to(in_float32(self.C).dtype)

    def kernel(self, length: int) -> Float[Tensor, "L D"]:
        """Return 2 Re(C exp(dt A l) B): powers to l = stride i + j are products of powers to stride i and to j."""
        stride = math.isqrt(length - 1) + 1
        near = torch.arange(stride, device=self.C.device, dtype=in_float32(self.C).dtype)
        far = stride * torch.arange(-(-length // stride), device=near.device, dtype=near.dtype)
        left = product(self.powers(far), product(in_float32(self.C), self.inputs())[:, None])
        kernel = real_part(left, self.powers(near))
        return 2 * kernel.flatten(1)[:, :length].mT

    def write(self, y: Float[Tensor, "B L D"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        z: Tensor = self.output(F.gelu(y + self.skip.to(y.dtype) * x))
        return F.glu(z, dim=-1) if self.glu else z

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the kernel at every distance, the same for all tokens; the recurrence has no other direction."""
        del causal
        length, document_starts = x.shape[1], find_document_starts(context)
        with without_autocast(x):
            kernel = self.kernel(length)
        position = torch.arange(length, device=x.device)
        weights = kernel.mT[:, (position[:, None] - position).clamp(min=0)]
        return weights * visible_pairs(x, document_starts)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        del context
        return self.write(weighted_values(weights, in_float32(x)).to(x.dtype), x)

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> S4dState:
        del max_length
        exact_dtype = at_least_float32(dtype)
        return S4dState(
            hidden=torch.zeros(batch_size, self.d_model, self.state // 2, 2, device=device, dtype=exact_dtype)
        )

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], S4dState]:
        assert isinstance(state, S4dState) and state.hidden is not None, "a state comes from initial_state"
        length = x.shape[1]
        if context.valid is not None:
            x = x.masked_fill(~context.valid[..., None], 0.0)
        with without_autocast(x):
            position = torch.arange(length, device=x.device, dtype=state.hidden.dtype)
            left = product(self.powers(position + 1), in_float32(self.C)[:, None])
            y = 2 * real_part(left, state.hidden.transpose(0, 1)).permute(2, 1, 0)
            y = y.to(x.dtype) + convolved(x, self.kernel(length))
            state.hidden = self._after(x, state.hidden)
        state.length += length
        return self.write(y, x), state

    def _after(self, x: Float[Tensor, "B L D"], hidden: Float[Tensor, "B D P 2"]) -> Float[Tensor, "B D P 2"]:
        """Return the states after these tokens; the first token's contribution has decayed most."""
        length = x.shape[1]
        ages = torch.arange(length - 1, -1, -1, device=x.device, dtype=hidden.dtype)
        brought = torch.einsum("bld,dlpc->bdpc", in_float32(x), product(self.powers(ages), self.inputs()[:, None]))
        faded: Tensor = product(self.powers(ages[:1] + 1)[:, 0], hidden)
        return faded + brought

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: what tokens contribute to the states, and what is read from them."""
        n, d, s = query.length, self.d_model, self.state
        stride = math.isqrt(n - 1) + 1
        strides = -(-n // stride)
        powers = (8 * strides + 6 * stride + 36) * d * s // 2 + strides + stride + 6
        saved = n * d * (5 if self.glu else 3) + 4 * (n + 1) * d + 6 * d + powers
        return Costs.of(
            self,
            forward_flops=2 * n * d * d * (2 if self.glu else 1) + 4 * n * d * s,
            state_elements=d * s,
            activation_bytes=saved * query.bytes_per_element,
        )


def product(a: Float[Tensor, "*A 2"], b: Float[Tensor, "*C 2"]) -> Float[Tensor, "*E 2"]:
    """Multiply complex numbers as pairs of real ones, which every precision has."""
    (a_real, a_imaginary), (b_real, b_imaginary) = a.unbind(-1), b.unbind(-1)
    return torch.stack(
        (a_real * b_real - a_imaginary * b_imaginary, a_real * b_imaginary + a_imaginary * b_real), dim=-1
    )


def real_part(a: Float[Tensor, "D S P 2"], b: Float[Tensor, "D T P 2"]) -> Float[Tensor, "D S T"]:
    """Return Re sum_p a_p b_p, for all pairs."""
    return (a * a.new_tensor([1.0, -1.0])).flatten(2) @ b.flatten(2).mT
