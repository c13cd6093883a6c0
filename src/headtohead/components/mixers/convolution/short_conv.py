"""Short depthwise convolutions along the sequence: the mixer, as before those of H3 (Fu et al. 2023,
https://arxiv.org/abs/2212.14052) and Mamba (https://arxiv.org/abs/2312.00752), and the causal one in recurrences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Component, Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document, unpadded_rows
from headtohead.components.without_memory import has_values, packing
from headtohead.errors import UsageError
from headtohead.ranges import Width

Start = Literal["identity", "random"]
_NOISE = 0.02


@dataclass
class LatestState(State):
    """The last tokens that were read, oldest first."""

    latest: Float[Tensor, "B T D"] | None = None

    def append(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B M D"]:
        """Return these tokens with the latest before them, and retain as many as before."""
        assert self.latest is not None, "a state comes from initial_state"
        both = torch.cat((self.latest.to(x.dtype), x), dim=1)
        self.latest, self.length = both[:, x.shape[1] :], self.length + x.shape[1]
        return both


class ShortConvolution(Mixer, HasAttentionMaps):
    """y_t = sum_k w_k x_{t-k} + b over `kernel` tokens, the last of them t itself; where both sides are visible, t is
    in the middle. `start=identity` begins near y = x, so that the following mixer learns as if nothing preceded it."""

    sums_to_one = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        kernel: Width = 4,
        bias: bool = True,  # whether each channel has a bias
        start: Start = "random",
    ) -> None:
        super().__init__()
        del num_heads, dropout
        if kernel < 2:
            raise UsageError(f"kernel={kernel} mixes no tokens: choose 2 or more, usually 3 or 4")
        if start not in get_args(Start):
            raise UsageError(f"start={start} is unknown: choose one of {', '.join(get_args(Start))}")
        self.d_model, self.kernel, self.causal, self.start = d_model, kernel, causal, start
        self.before = kernel - 1 if causal else kernel // 2
        """The number of tokens before its own that each output sees."""
        self.weight = nn.Parameter(torch.empty(d_model, kernel))
        self.bias = nn.Parameter(torch.empty(d_model)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.start == "random":
            nn.init.normal_(self.weight, std=self.kernel**-0.5)
            return
        nn.init.normal_(self.weight, std=_NOISE)
        with torch.no_grad():
            self.weight[:, self.before] += 1.0

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = one_row_per_document(x, context)
        if documents is not None:
            return documents.back(self.read(documents.x, documents.valid))
        return self.read(x, context.valid)

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        """Convolve rows with zeros before and after them; padding, on the right, counts as zero."""
        if valid is not None:
            x = x * valid[..., None]
        return self.convolve(F.pad(x, (0, 0, self.before, self.kernel - 1 - self.before)))

    def convolve(self, x: Float[Tensor, "B M D"]) -> Float[Tensor, "B L D"]:
        """Return one output for every `kernel` consecutive tokens."""
        weight = self.weight[:, None].to(x.dtype)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.conv1d(x.mT, weight, bias, groups=self.d_model).mT

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B D L M"]:
        """Return the band of weights about each token, channel by channel."""
        positions = torch.arange(x.shape[1], device=x.device)
        step = positions - positions[:, None] + self.before
        seen = (step >= 0) & (step < self.kernel)
        if causal:
            seen = seen.tril()
        band = self.weight[:, step.clamp(0, self.kernel - 1)]
        allowed = seen.expand(x.shape[0], -1, -1)
        if context.valid is not None:
            allowed = allowed & context.valid[:, None, :]
        if context.segments is not None:
            allowed = allowed & (context.segments[:, :, None] == context.segments[:, None, :])
        return band * allowed[:, None]

    def mixed(
        self, weights: Float[Tensor, "B D L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        del context
        y = torch.einsum("bdlm,bmd->bld", weights.to(x.dtype), x)
        return y if self.bias is None else y + self.bias.to(x.dtype)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> LatestState:
        del max_length
        return LatestState(latest=torch.zeros(batch_size, self.kernel - 1, self.d_model, device=device, dtype=dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], LatestState]:
        assert isinstance(state, LatestState), "a state comes from initial_state"
        aligned = unpadded_rows(x, context.valid)
        if aligned is None:
            return self.convolve(state.append(x)), state
        both = state.append(aligned.x)
        last = aligned.num_real[:, None] + torch.arange(self.kernel - 1, device=x.device)
        state.latest = both.gather(1, last[..., None].expand(-1, -1, self.d_model))
        return aligned.back(self.convolve(both)), state

    def costs(self, query: CostContext) -> Costs:
        n, d = query.length, self.d_model
        padded = n + self.kernel - 1
        return Costs.of(
            self,
            forward_flops=2 * self.kernel * n * d,
            state_elements=(self.kernel - 1) * d,
            activation_bytes=padded * d * query.bytes_per_element,
        )


class CausalConvolution(Component):
    """y_t = bias + sum_j weight_j x_{t-j}, j below `taps`; parameters as those of a depthwise nn.Conv1d."""

    def __init__(self, width: int, *, taps: int, bias: bool) -> None:
        super().__init__()
        if taps < 1:
            raise UsageError(f"conv={taps} is not a number of taps: use 1 or more")
        self.width, self.taps = width, taps
        self.weight = nn.Parameter(torch.empty(width, 1, taps))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw uniformly, with variance 1/3 of 1/fan-in, as torch does for convolutions."""
        bound = self.taps**-0.5
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self,
        x: Float[Tensor, "B L E"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        tail: Float[Tensor, "B T E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        """Convolve; `document_starts` marks tokens that must not see those before them, and `tail` holds the last
        inputs before these."""
        if document_starts is not None:
            return self._by_document(x, document_starts)
        before = x.new_zeros(x.shape[0], self.taps - 1, self.width) if tail is None else tail.to(x.dtype)
        return self._slid_over(torch.cat((before, x), dim=1))

    def centred(self, x: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        """Apply the same taps to the tokens on both sides."""
        ahead = self.taps // 2
        return self._slid_over(F.pad(x, (0, 0, self.taps - 1 - ahead, ahead)))

    def _slid_over(self, x: Float[Tensor, "B M E"]) -> Float[Tensor, "B L E"]:
        return F.conv1d(x.mT, self.weight, self.bias, groups=self.width).mT

    def _by_document(self, x: Float[Tensor, "B L E"], document_starts: Bool[Tensor, "B L"]) -> Float[Tensor, "B L E"]:
        """Convolve with zeros between documents, as many as the kernel reaches over."""
        number = document_starts.long().cumsum(1)
        batch, length = number.shape
        row = torch.arange(batch, device=x.device)[:, None]
        position = torch.arange(length, device=x.device) + (self.taps - 1) * number
        last = int(number.max()) if has_values(number) else packing().sizes(1, length)[0] - 1
        room = x.new_zeros(batch, length + (self.taps - 1) * last, self.width)
        y: Tensor = self(room.index_put((row, position), x))
        return y[row, position]

    def initial_tail(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "B T E"]:
        return torch.zeros(batch_size, self.taps - 1, self.width, device=device, dtype=dtype)

    def next_tail(self, x: Float[Tensor, "B L E"], tail: Float[Tensor, "B T E"]) -> Float[Tensor, "B T E"]:
        """Return the last inputs, for the tokens to come."""
        seen = torch.cat((tail, x.to(tail.dtype)), dim=1)
        return seen[:, seen.shape[1] - (self.taps - 1) :]

    def costs(self, query: CostContext) -> Costs:
        n = query.length
        return Costs.of(
            self,
            forward_flops=2 * n * self.width * self.taps,
            state_elements=(self.taps - 1) * self.width,
            activation_bytes=(n + self.taps - 1) * self.width * query.bytes_per_element,
        )
