"""DeltaProduct (Siems et al. 2025, https://arxiv.org/abs/2502.10297): several steps of the delta rule for every token,
so that a memory may turn in more than one plane at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.fast_kernels import FlaFunction
from headtohead.components.mixers.linear.delta_rule import DeltaShape
from headtohead.components.mixers.linear.gated_delta import GatedDelta
from headtohead.components.mixers.linear.matrix_memory import ChunkedForm, MemoryInputs
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.ranges import Amount, Width


@dataclass(frozen=True)
class ProductShape(DeltaShape):
    """The sides of a head's matrix, and how often a token writes to it."""

    products: Width = 2

    @property
    def num_writes(self) -> int:
        return self.products


class DeltaProduct(GatedDelta):
    """S_t = (1 - b_n k_n k_n^T) ... (1 - b_1 k_1 k_1^T) a_t S_(t-1) + ..., with n keys, values and rates a token; all
    else is as in the gated delta rule."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        shape: ProductShape = ProductShape(),
        gate: bool = True,
        conv: Amount = 4,
        negative_eigenvalues: bool = True,
        chunks: ChunkedForm = ChunkedForm(),
    ) -> None:
        super().__init__(
            d_model,
            num_heads=num_heads,
            causal=causal,
            dropout=dropout,
            shape=shape,
            gate=gate,
            conv=conv,
            negative_eigenvalues=negative_eigenvalues,
            chunks=chunks,
        )

    def recurred(
        self,
        parts: MemoryInputs,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K V"] | None = None,
    ) -> tuple[Float[Tensor, "B H L _"], Float[Tensor, "B H K _"]]:
        y, last = super().recurred(*self._write_by_write(parts, document_starts), state)
        return y[:, :, self.num_writes - 1 :: self.num_writes], last

    def _write_by_write(
        self, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> tuple[MemoryInputs, Bool[Tensor, "B T"] | None]:
        """Return a sequence of single writes: the memory decays before the first write of a token, and the query reads
        after its last."""
        writes = self.num_writes
        assert parts.rate is not None and parts.reads is not None, "project makes them"
        k, v, reads, rate = (
            part.unflatten(-1, (writes, -1)).flatten(2, 3) for part in (parts.k, parts.v, parts.reads, parts.rate)
        )
        q = F.pad(parts.q[:, :, :, None], (0, 0, writes - 1, 0)).flatten(2, 3)
        log_decay = F.pad(parts.log_decay, (0, writes - 1)).flatten(2)[..., None]
        if document_starts is not None:
            document_starts = F.pad(document_starts[..., None], (0, writes - 1)).flatten(1)
        single = replace(parts, q=q, k=k, v=v, reads=reads, rate=rate, log_decay=log_decay, gate=None)
        return single, document_starts

    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        y = super().through(kernel, *self._write_by_write(parts, document_starts))
        return y[:, :, self.num_writes - 1 :: self.num_writes]

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B HW L M"]:
        """Return a map for each head and write, since each write has a value of its own."""
        del causal
        document_starts, (length, writes) = find_document_starts(context), (x.shape[1], self.num_writes)
        parts = self.project(x, document_starts)
        one_hot = torch.eye(writes * length, device=x.device, dtype=parts.q.dtype)
        by_token = one_hot.unflatten(0, (writes, length)).transpose(0, 1).flatten(1)
        values = replace(parts, v=by_token.expand(*parts.q.shape[:2], -1, -1))
        maps: Tensor = self.recurred(values, document_starts)[0].unflatten(-1, (writes, length)).transpose(2, 3)
        return maps.flatten(1, 2)

    def mixed(
        self, weights: Float[Tensor, "B HW L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        parts = self.project(x, find_document_starts(context))
        values = parts.v.unflatten(-1, (self.num_writes, -1)).transpose(2, 3).flatten(1, 2)
        y = (weights @ values.to(weights.dtype)).unflatten(1, (-1, self.num_writes)).sum(2)
        return self.project_output(y.to(parts.v.dtype), parts)
