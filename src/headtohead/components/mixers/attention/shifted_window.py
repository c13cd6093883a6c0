"""Attention within windows of a grid, with a learned bias for every difference of rows and columns (Liu et al. 2021,
https://arxiv.org/abs/2103.14030)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn

from headtohead.components.component import Context, Grid, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention, merge_heads
from headtohead.errors import UsageError


class ShiftedWindowAttention(SoftmaxAttention):
    """softmax(q k^T / sqrt(K) + b) v among the tokens of one window; where windows are shifted, those that wrap around
    the edges of the grid fall apart into regions that do not see each other."""

    follows_order = True
    can_be_causal = False
    reads_scores = False
    reads_rotation = False
    meets_every_token = False
    differences: Tensor
    regions: Tensor

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        grid: Grid,
        window: int,
        shift: int,
        qkv_bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        heads = AttentionHeads(bias=qkv_bias, output_bias=True)
        super().__init__(d_model, num_heads=num_heads, causal=False, dropout=dropout, heads=heads)
        self.grid: Grid = grid
        self.window, self.shift = window, shift
        self.table = nn.Parameter(torch.empty((2 * window - 1) ** 2, num_heads))
        self.register_buffer("differences", torch.empty(window**2, window**2, dtype=torch.long), persistent=False)
        rows, columns = grid
        self.register_buffer("regions", torch.empty(1, rows * columns, 1, dtype=torch.long), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.table, std=0.02)
        within = torch.arange(self.window, device=self.table.device)
        apart = within[:, None] - within[None, :] + self.window - 1  # of query and key, along one side
        pairs = apart[:, None, :, None] * (2 * self.window - 1) + apart[None, :, None, :]
        self.differences.copy_(pairs.reshape_as(self.differences))
        rows, columns = (self._region_of_each(side) for side in self.grid)
        self.regions.copy_((3 * rows[:, None] + columns[None, :]).reshape_as(self.regions))

    def _region_of_each(self, side: int) -> Int[Tensor, " S"]:
        """Return the region of each row: those that wrap around lie in the first window once they are shifted."""
        index = torch.arange(side, device=self.table.device)
        if self.shift == 0:
            return torch.zeros_like(index)
        shifted = (index - self.shift) % side
        return (shifted >= side - self.window).long() + (shifted >= side - self.shift).long()

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield self.table

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        q, k, v = self.project(self._in_windows(x), Context())
        dropout = self.dropout if self.training else 0.0
        y = attend(q, k, v, bias=self._window_bias(x.shape[0]), causal=False, scale=self.scale, dropout=dropout)
        return self._in_rows(self.output(merge_heads(y)))

    def _in_windows(self, x: Num[Tensor, "B L D"]) -> Num[Tensor, "BW N D"]:
        """Return the windows of all samples, each row by row."""
        size = self.window
        image = x.unflatten(1, self.grid)
        if self.shift:
            image = image.roll((-self.shift, -self.shift), (1, 2))
        squares = image.unflatten(2, (-1, size)).unflatten(1, (-1, size)).transpose(2, 3)
        windows: Tensor = squares.flatten(0, 2).flatten(1, 2)
        return windows

    def _in_rows(self, windows: Float[Tensor, "BW N D"]) -> Float[Tensor, "B L D"]:
        """Undo `_in_windows`."""
        size, (rows, columns) = self.window, self.grid
        split = windows.unflatten(1, (size, size)).unflatten(0, (-1, rows // size, columns // size))
        image = split.transpose(2, 3).flatten(3, 4).flatten(1, 2)
        if self.shift:
            image = image.roll((self.shift, self.shift), (1, 2))
        x: Tensor = image.flatten(1, 2)
        return x

    def _window_bias(self, num_samples: int) -> Float[Tensor, "BW H N N"]:
        """Return the biases of the pairs in every window, minus infinity between regions."""
        bias = self.table[self.differences].permute(2, 0, 1)[None]
        if not self.shift:
            return bias
        masked = bias.masked_fill(~self._seen()[:, None], float("-inf"))
        return masked.expand(num_samples, -1, -1, -1, -1).flatten(0, 1)

    def _seen(self) -> Bool[Tensor, "W N N"]:
        region = self._in_windows(self.regions).squeeze(-1)
        return region[:, :, None] == region[:, None, :]

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the weights over the whole grid: zero between windows and between regions."""
        del context
        q, k, _ = self.project(self._in_windows(x), Context())
        by_window = self.weights(q, k, self._window_bias(x.shape[0])).unflatten(0, (x.shape[0], -1))
        length = x.shape[1]
        order = self._in_windows(torch.arange(length, device=x.device)[None, :, None]).squeeze(-1)
        result: Tensor = by_window.new_zeros(len(x), self.num_heads, length, length)
        result[:, :, order[:, :, None], order[:, None, :]] = by_window.transpose(1, 2)
        return result.tril() if causal else result

    def tensor_parallel_plan(self) -> None:
        """Return nothing: the table has a column for every head, and stays whole."""

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        del x, state, context
        raise UsageError("attention within windows of an image cannot decode step by step: use a mixer for sequences")

    def costs(self, query: CostContext) -> Costs:
        """Return the costs: every token meets those of its window, and autograd saves the windows, queries, keys,
        values and what the heads read of them, with the weights where the kernel does not fuse."""
        n, pairs = query.length, query.length * self.window**2 * self.num_heads
        saved = 5 * n * self.d_model * query.bytes_per_element
        if query.device == "cpu":  # its fused kernel has no gradient of a bias that learns
            saved += pairs * query.bytes_per_element
        else:
            saved += 4 * n * self.num_heads + (pairs * query.bytes_per_element if self.shift else 0)
        forward = 8 * n * self.d_model**2 + 4 * n * self.window**2 * self.d_model
        return Costs.of(self, forward_flops=forward, activation_bytes=saved)
