"""A short convolution along the sequence, each channel by itself, as before the mixers of H3 (Fu et al. 2023,
https://arxiv.org/abs/2212.14052) and Mamba (Gu and Dao 2023, https://arxiv.org/abs/2312.00752)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attending import Attends
from headtohead.components.contracts import Context, CostQuery, Costs, Mixer, State
from headtohead.components.mixers.documents import by_document
from headtohead.components.mixers.realigned import realigned
from headtohead.errors import UsageError
from headtohead.ranges import Width

Start = Literal["identity", "random"]
_NOISE = 0.02


@dataclass
class LatestState(State):
    """The last tokens that were read, oldest first."""

    latest: Float[Tensor, "B T D"] | None = None

    def append(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B M D"]:
        """These tokens with the latest before them; as many of all stay as stayed before."""
        assert self.latest is not None, "a state comes from initial_state"
        both = torch.cat((self.latest.to(x.dtype), x), dim=1)
        self.latest, self.length = both[:, x.shape[1] :], self.length + x.shape[1]
        return both


class ShortConvolution(Mixer, Attends):
    """y_t = sum_k w_k x_{t-k} + b over `kernel` tokens, the last of them t itself; where both sides are seen, t is in
    the middle. `start=identity` begins near y = x, so that what follows learns as if nothing stood before it."""

    sums_to_one = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        kernel: Width = 4,
        bias: bool = True,
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
        """How many tokens before its own each output sees."""
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
        documents = by_document(x, context)
        if documents is not None:
            return documents.back(self.read(documents.x, documents.valid))
        return self.read(x, context.valid)

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        """Rows with nothing before and after them; padding, on the right, is nothing too."""
        if valid is not None:
            x = x * valid[..., None]
        return self.convolve(F.pad(x, (0, 0, self.before, self.kernel - 1 - self.before)))

    def convolve(self, x: Float[Tensor, "B M D"]) -> Float[Tensor, "B L D"]:
        """One output for every `kernel` tokens in a row."""
        weight = self.weight[:, None].to(x.dtype)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.conv1d(x.mT, weight, bias, groups=self.d_model).mT

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B D L M"]:
        """The band of weights about each token, channel by channel."""
        places = torch.arange(x.shape[1], device=x.device)
        step = places - places[:, None] + self.before
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
        aligned = realigned(x, context.valid)
        if aligned is None:
            return self.convolve(state.append(x)), state
        both = state.append(aligned.x)
        last = aligned.num_real[:, None] + torch.arange(self.kernel - 1, device=x.device)
        state.latest = both.gather(1, last[..., None].expand(-1, -1, self.d_model))
        return aligned.back(self.convolve(both)), state

    def costs(self, query: CostQuery) -> Costs:
        n, d = query.length, self.d_model
        padded = n + self.kernel - 1
        return Costs.of(
            self,
            forward_flops=2 * self.kernel * n * d,
            state_elements=(self.kernel - 1) * d,
            activation_bytes=padded * d * query.bytes_per_element,
        )
