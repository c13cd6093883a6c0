"""Gated linear attention, delta rules and RWKV share this base: every head has a decaying matrix which tokens
write to and read from (Schlag et al. 2021, https://arxiv.org/abs/2102.11174)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, State
from headtohead.components.fast_kernels import Accelerated, FastKernel, FlaFunction, FlaKernel, Offer
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.chunked_recurrence import checked_chunk_size, recur, recur_once
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Multiple, Range


@dataclass
class MatrixMemoryState(State):
    """The decoding state, whose size does not depend on the length."""

    matrix: Float[Tensor, "B H K V"] | None = None
    before: Float[Tensor, "B T E"] | None = None
    """The inputs that the next tokens see of those just before them: a shift of tokens, or a convolution's inputs."""


@dataclass(frozen=True)
class MemoryInputs:
    """The projections of tokens, by head; of N keys and values, where a token writes several times, side by side."""

    q: Float[Tensor, "B H L K"]
    k: Float[Tensor, "B H L NK"]
    v: Float[Tensor, "B H L NV"]
    log_decay: Float[Tensor, "B H L #K"]
    rate: Float[Tensor, "B H L N"] | None = None
    """The share of a value that is written; None means all."""
    reads: Float[Tensor, "B H L NK"] | None = None
    """The vectors that a delta rule reads before writing, and writes at the token's own key or else at `writes`."""
    writes: Float[Tensor, "B H L K"] | None = None
    gate: Float[Tensor, "B L E"] | None = None
    """The output gate."""
    bonus: Float[Tensor, "B H L 1"] | None = None
    """The share of its own value that a token's output holds besides what it reads."""
    seen: Float[Tensor, "B T W"] | None = None
    """The state that the tokens to come see of these directly; made in decoding alone."""

    @property
    def values(self) -> Float[Tensor, "B H L NV"]:
        if self.rate is None:
            return self.v
        y: Tensor = (self.v.unflatten(-1, (self.rate.shape[-1], -1)) * self.rate[..., None]).flatten(-2)
        return y

    @property
    def delta(self) -> dict[str, Any]:
        return {"reads": self.reads, "writes": self.writes}

    def only(self, valid: Bool[Tensor, "B L"]) -> MemoryInputs:
        """Prevent padding from decaying the memory or writing to it."""
        real = valid[:, None, :, None]
        reads, writes = (None if part is None else part * real for part in (self.reads, self.writes))
        return replace(self, k=self.k * real, log_decay=self.log_decay * real, reads=reads, writes=writes)


def share(name: str, ratio: float, width: int) -> int:
    """Return a width that is a fraction or a multiple of a head's, or raise an error if it is not whole."""
    part = round(ratio * width)
    if part < 1 or abs(part - ratio * width) > 1e-6:
        raise UsageError(f"{name}={ratio:g} of a head {width} wide is not a whole width: use 1.0, or other heads")
    return part


@dataclass(frozen=True)
class MemoryShape(FieldGroup):
    """The sides of a head's matrix, as multiples of the head's width."""

    key_ratio: Multiple = 1.0
    """Width of a head's keys, as a multiple of d_model / num_heads; must come out whole."""
    value_ratio: Multiple = 1.0
    """Width of a head's values, as a multiple of d_model / num_heads; must come out whole."""

    @property
    def num_writes(self) -> int:
        """Return how often a token writes."""
        return 1

    def widths(self, width: int) -> tuple[int, int]:
        """Return the widths of keys and of values."""
        return share("key_ratio", self.key_ratio, width), share("value_ratio", self.value_ratio, width)


@dataclass(frozen=True)
class ChunkedForm(FieldGroup):
    """The chunks in which whole sequences are read: how long they are, and which kernel reads them."""

    chunk_size: Annotated[int, Range(1, 128, only="powers of two")] = 32
    kernel: FlaKernel = "auto"


class MatrixMemory(Accelerated, HasAttentionMaps):
    """A memory that is read from left to right: in chunks for whole sequences and prompts, by the recurrence itself for
    one token."""

    reads_one_way = True
    sums_to_one = False

    num_heads: int

    def __init__(self, chunks: ChunkedForm, offer: Offer) -> None:
        super().__init__()
        self.chunk_size, self.fast = checked_chunk_size(chunks.chunk_size), FastKernel(chunks.kernel, offer)

    @abstractmethod
    def project(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        before: Float[Tensor, "B T E"] | None = None,
    ) -> MemoryInputs:
        """Project the tokens; `document_starts` marks tokens that see none before them, and `before` is what decoding
        retained of those before the first."""

    @abstractmethod
    def project_output(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        """Return the output made of what was read."""

    @abstractmethod
    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        """Read the memory with a fast kernel."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        document_starts = find_document_starts(context)
        parts = self.project(x, document_starts)
        return self.project_output(self.read(parts, document_starts), parts)

    def read(self, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B H L V"]:
        """Read the memory at every token of whole sequences."""
        kernel = self.fast.function(parts.v)
        if kernel is not None:
            return self.through(kernel, parts, document_starts)
        return self.recurred(parts, document_starts)[0].to(parts.v.dtype)

    def recurred(
        self,
        parts: MemoryInputs,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K V"] | None = None,
    ) -> tuple[Float[Tensor, "B H L _"], Float[Tensor, "B H K _"]]:
        """Return what every token reads, and the matrix after the last; one token continues a state without chunks."""
        inputs = (parts.q, parts.k, parts.values, parts.log_decay)
        if state is not None and parts.q.shape[2] == 1:
            return recur_once(*inputs, state, **parts.delta)
        return recur(*inputs, **parts.delta, state=state, starts=document_starts, chunk_size=self.chunk_size)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return what is read where each token's value is one-hot; always of the tokens before."""
        del causal
        document_starts, length = find_document_starts(context), x.shape[1]
        parts = self.project(x, document_starts)
        one_hot = torch.eye(length, device=x.device, dtype=parts.q.dtype).expand(*parts.q.shape[:2], -1, -1)
        return self.recurred(replace(parts, v=one_hot), document_starts)[0]

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        parts = self.project(x, find_document_starts(context))
        return self.project_output((weights @ parts.v.to(weights.dtype)).to(parts.v.dtype), parts)

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], MatrixMemoryState]:
        assert isinstance(state, MatrixMemoryState) and state.matrix is not None, "a state comes from initial_state"
        if context.valid is not None:  # padding, on the left, is like nothing at all
            x = x * context.valid[..., None]
        parts = self.project(x, before=state.before)
        real = parts if context.valid is None else parts.only(context.valid)
        y, state.matrix = self.recurred(real, state=state.matrix)
        state.before, state.length = parts.seen, state.length + x.shape[1]
        return self.project_output(y.to(parts.v.dtype), parts), state

    def empty(
        self,
        batch_size: int,
        key_width: int,
        value_width: int,
        before: Tensor | None,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> MatrixMemoryState:
        """Return an empty state in float32 at least."""
        shape, exact = (batch_size, self.num_heads, key_width, value_width), at_least_float32(dtype)
        return MatrixMemoryState(matrix=torch.zeros(shape, device=device, dtype=exact), before=before)
