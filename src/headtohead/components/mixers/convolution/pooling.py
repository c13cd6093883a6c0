"""The mean of the neighbours as a mixer without any weight: PoolFormer (Yu et al. 2022,
https://arxiv.org/abs/2111.11418)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Grid, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.sparse_attention import slots_of
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document
from headtohead.errors import UsageError
from headtohead.ranges import OddWidth

_WHOLE_ROWS = "mixer=pooling reads both sides of a token and cannot decode step by step: use another mixer"


class Pooling(Mixer, HasAttentionMaps):
    """y = mean of the neighbours, itself among them, - x: of `pool_size` tokens of a sequence, or of as many rows and
    columns of an image's patches (Eq. 4). Neighbours beyond an edge, and padding, do not count.

    A class token before the patches has no neighbours: what is added to it is zero.
    """

    no_mup_rule = ""
    can_be_causal = False
    reads_grid = True
    leaves_class_token = True

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        max_length: int | None = None,
        grid: Grid | None = None,
        pool_size: OddWidth = 3,
    ) -> None:
        super().__init__()
        del num_heads, dropout
        if causal:
            raise UsageError(
                "mixer=pooling takes the mean of both sides of a token, and cannot be causal: use another mixer, "
                "model=vision_transformer or model=encoder_only"
            )
        if pool_size < 3 or pool_size % 2 == 0:
            raise UsageError(f"pool_size={pool_size} has no middle, or no neighbours: choose an odd number from 3 on")
        self.d_model, self.causal, self.pool_size, self.patches = d_model, False, pool_size, grid
        num_patches = 0 if grid is None else grid[0] * grid[1]
        self.leading = 0 if grid is None or max_length is None else max_length - num_patches
        """The number of tokens before the patches."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = one_row_per_document(x, context)
        if documents is not None:
            return documents.back(self.read(documents.x, documents.valid))
        return self.read(x, context.valid)

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        """Pool rows with padding on the right."""
        length, exact = x.shape[1], x.to(at_least_float32(x.dtype))
        if valid is not None:
            exact = exact * valid[..., None]
        counted = torch.ones(1, length, dtype=torch.bool, device=x.device) if valid is None else valid
        if self.patches is None:
            return self.pooled(exact[:, None], counted[:, None])[:, 0].to(x.dtype) - x
        first, end = self.leading, self.leading + self.patches[0] * self.patches[1]
        patches, missing = exact[:, first:end], max(0, end - max(first, length))
        means = self.pooled(
            F.pad(patches, (0, 0, 0, missing)).unflatten(1, self.patches),
            F.pad(counted[:, first:end], (0, missing)).unflatten(1, self.patches),
        )
        y = means.flatten(1, 2)[:, : patches.shape[1]].to(x.dtype) - x[:, first:end]
        return F.pad(y, (0, 0, min(first, length), max(0, length - end)))

    def pooled(self, x: Float[Tensor, "B R C D"], counted: Bool[Tensor, "#B R C"]) -> Float[Tensor, "B R C D"]:
        """Return the means of neighbours in a grid, where those that do not count are zero; a sequence is a grid of one
        row."""
        count = counted[..., None].to(x.dtype)
        total, count = (self.summed(self.summed(part, dim=1), dim=2) for part in (x, count))
        return total * count.clamp(min=1.0).reciprocal()

    def summed(self, x: Float[Tensor, "B R C E"], *, dim: int) -> Float[Tensor, "B R C E"]:
        """Return the sums over `pool_size` neighbours along rows or columns."""
        reach, size = self.pool_size // 2, x.shape[dim]
        if size == 1:
            return x
        padded = F.pad(x, (0, 0, reach, reach) if dim == 2 else (0, 0, 0, 0, reach, reach))
        total = padded.narrow(dim, 0, size)
        for offset in range(1, self.pool_size):
            total = total + padded.narrow(dim, offset, size)
        return total

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B 1 L M"]:
        """Return the equal shares of each token's neighbours; one that is not a patch of an image has itself alone."""
        index = slots_of(context, x)[0].expand(x.shape[:2])
        allowed = self.neighbours(index)
        if causal:
            allowed = allowed.tril()
        if context.valid is not None:
            allowed = allowed & context.valid[:, None, :]
        if context.segments is not None:
            allowed = allowed & (context.segments[:, :, None] == context.segments[:, None, :])
        alone = ~self.is_patch(index)[..., None] & torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        shares = (allowed | alone).to(at_least_float32(x.dtype))
        return (shares / shares.sum(-1, keepdim=True).clamp(min=1.0))[:, None]

    def is_patch(self, index: Int[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
        """Return which tokens have neighbours: all of a sequence, and those of an image that are patches."""
        if self.patches is None:
            return torch.ones_like(index, dtype=torch.bool)
        return (index >= self.leading) & (index < self.leading + self.patches[0] * self.patches[1])

    def neighbours(self, index: Int[Tensor, "B L"]) -> Bool[Tensor, "B L L"]:
        """Return who is a neighbour of whom by their indices in a document."""
        columns = 1 if self.patches is None else max(1, self.patches[1])
        row, column = (index - self.leading) // columns, (index - self.leading) % columns
        rows, columns_apart = ((part[:, :, None] - part[:, None, :]).abs() for part in (row, column))
        real = self.is_patch(index)
        near = rows.maximum(columns_apart) <= self.pool_size // 2
        return near & real[:, :, None] & real[:, None, :]

    def mixed(
        self, weights: Float[Tensor, "B 1 L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        del context
        return weights[:, 0].to(x.dtype) @ x - x

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        del batch_size, max_length, device, dtype
        raise UsageError(_WHOLE_ROWS)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        del x, state, context
        raise UsageError(_WHOLE_ROWS)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs: sums only, of which autograd saves what they are multiplied by."""
        num_counted = query.length if self.patches is None else self.patches[0] * self.patches[1]
        return Costs.of(self, activation_bytes=num_counted * max(4, query.bytes_per_element))
