"""A short causal convolution of every channel by itself, as stands before the recurrences of Mamba and Griffin."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.contracts import Component, CostQuery, Costs
from headtohead.errors import UsageError


class CausalConvolution(Component):
    """y_t = bias + sum_j weight_j x_{t-j}, j below `taps`; parameters as those of a depthwise nn.Conv1d."""

    def __init__(self, width: int, *, taps: int, bias: bool) -> None:
        super().__init__()
        if taps < 1:
            raise UsageError(f"conv={taps} is no number of taps: use 1 or more")
        self.width, self.taps = width, taps
        self.weight = nn.Parameter(torch.empty(width, 1, taps))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform, with variance 1/3 of 1/fan-in, as torch draws a convolution's."""
        bound = self.taps**-0.5
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self,
        x: Float[Tensor, "B L E"],
        begins: Bool[Tensor, "B L"] | None = None,
        tail: Float[Tensor, "B T E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        """`begins` marks tokens that must not see those before them; `tail` holds the last inputs before these."""
        if begins is not None:
            return self._by_document(x, begins)
        before = x.new_zeros(x.shape[0], self.taps - 1, self.width) if tail is None else tail.to(x.dtype)
        return self._slid_over(torch.cat((before, x), dim=1))

    def centred(self, x: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        """The same taps over the tokens on both sides."""
        ahead = self.taps // 2
        return self._slid_over(F.pad(x, (0, 0, self.taps - 1 - ahead, ahead)))

    def _slid_over(self, x: Float[Tensor, "B M E"]) -> Float[Tensor, "B L E"]:
        return F.conv1d(x.mT, self.weight, self.bias, groups=self.width).mT

    def _by_document(self, x: Float[Tensor, "B L E"], begins: Bool[Tensor, "B L"]) -> Float[Tensor, "B L E"]:
        """Zeros between documents, as many as a token could look over."""
        number = begins.long().cumsum(1)
        batch, length = number.shape
        row = torch.arange(batch, device=x.device)[:, None]
        place = torch.arange(length, device=x.device) + (self.taps - 1) * number
        room = x.new_zeros(batch, length + (self.taps - 1) * int(number.max()), self.width)
        y: Tensor = self(room.index_put((row, place), x))
        return y[row, place]

    def initial_tail(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "B T E"]:
        return torch.zeros(batch_size, self.taps - 1, self.width, device=device, dtype=dtype)

    def next_tail(self, x: Float[Tensor, "B L E"], tail: Float[Tensor, "B T E"]) -> Float[Tensor, "B T E"]:
        """The last inputs, for the tokens to come."""
        seen = torch.cat((tail, x.to(tail.dtype)), dim=1)
        return seen[:, seen.shape[1] - (self.taps - 1) :]

    def costs(self, query: CostQuery) -> Costs:
        n = query.length
        return Costs.of(
            self,
            forward_flops=2 * n * self.width * self.taps,
            state_elements=(self.taps - 1) * self.width,
            activation_bytes=(n + self.taps - 1) * self.width * query.bytes_per_element,
        )
