"""Cross-entropy of a vocabulary head over row chunks: gradients are made in the forward pass, and the logits never
exist as a whole.

The logits of one chunk at a time are in a buffer that is reused, so that memory stays flat in the number of rows (as in
Wijmans et al. 2024, https://arxiv.org/abs/2411.09009) and no matrix product writes into fresh pages, which would halve
its rate on CPU. Of a chunk, a few rows at a time become probabilities and gradients, so that these passes stay within
a processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import without_autocast
from headtohead.components.processor import multiplies_bf16_slowly
from headtohead.data.batches.batch import IGNORED

_ROWS_IN_FP16 = 4096
"""The most rows in one product in float16, which ends at 65504: a weight's gradient is a sum over them."""
CHUNK_ELEMENTS = {"cpu": 2**25, "cuda": 2**26}
"""Logits held at once: 128 MiB in float32, about 670 rows of GPT-2's vocabulary; more where kernels are wider. Of fewer
rows products are slower (in bfloat16 by a third at 2^23), since each adds to the whole gradient of the weight."""

CACHED_ELEMENTS = {"cpu": 2**19}
"""Logits that are made into gradients at once: 2 MiB in float32; elsewhere the whole chunk."""


@dataclass
class Workspace:
    """Buffers that outlive a call; each is as large as the largest wish so far."""

    chunk_elements: int | None = None
    """Logits held at once; None: what suits the device."""
    planned_for: str | None = None
    """The type of the device that a plan replays these operations for; None: that of the tensors."""
    _buffers: dict[tuple[str, torch.device, torch.dtype], Tensor] = field(default_factory=dict, repr=False)

    def take(self, name: str, shape: tuple[int, ...], like: Tensor, dtype: torch.dtype) -> Tensor:
        """Return an uninitialised tensor of this shape from the workspace."""
        numel = torch.Size(shape).numel()
        key = (name, like.device, dtype)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < numel:
            buffer = self._buffers[key] = torch.empty(0)  # the smaller one goes before the larger one comes
            buffer = self._buffers[key] = torch.empty(numel, device=like.device, dtype=dtype)
        return buffer[:numel].view(shape)

    def chunk_rows(self, num_rows: int, vocab_size: int, device: torch.device) -> int:
        """Return the number of rows per chunk, balanced so that the last chunk is not much smaller."""
        kind = self.planned_for or device.type
        elements = self.chunk_elements or CHUNK_ELEMENTS.get(kind, CHUNK_ELEMENTS["cpu"])
        most = max(1, elements // max(1, vocab_size))
        num_chunks = max(1, -(-num_rows // most))
        return -(-num_rows // num_chunks)

    def part_rows(self, chunk_rows: int, vocab_size: int, device: torch.device) -> int:
        """Return the number of rows of a chunk that become gradients at once."""
        elements = CACHED_ELEMENTS.get(self.planned_for or device.type)
        return max(1, chunk_rows if elements is None else elements // max(1, vocab_size))

    def turns(self, bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the bounds of chunks or of their parts in order; a plan counts those that are alike once."""
        yield from bounds


@dataclass(frozen=True)
class Scores:
    """Sums over the scored rows: the loss in nats, how many targets were the most likely token, how many rows."""

    loss: Tensor
    correct: Tensor
    count: Tensor
    predicted: Int[Tensor, " N"]
    """The most likely token of each row that was given."""
    losses: Float[Tensor, " N"]
    """The loss of each row; 0 where nothing counts."""


def cross_entropy_sum(
    features: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    *,
    cap: float | None = None,
    label_smoothing: float = 0.0,
    workspace: Workspace | None = None,
) -> Tensor:
    """Return the sum over rows of F.cross_entropy(features @ weight.T + bias, targets), with logits softly capped where
    there is a cap; IGNORED rows count nothing."""
    workspace = workspace or Workspace()
    y: Tensor = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        features, weight, bias, targets, cap, label_smoothing, workspace, torch.is_grad_enabled()
    )
    return y


@torch.no_grad()
def score(
    features: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    *,
    cap: float | None = None,
    workspace: Workspace | None = None,
) -> Scores:
    """Return loss and predictions for evaluation, without gradients."""
    workspace = workspace or Workspace()
    chunks = _RowChunks(features, weight, bias, targets, workspace, cap)
    loss = torch.zeros((), dtype=torch.float64, device=features.device)
    predicted = torch.zeros(len(features), dtype=torch.int64, device=features.device)
    losses = torch.zeros(len(features), dtype=torch.float32, device=features.device)
    with without_autocast(features):
        for start, stop, product in chunks.blocks():
            logits = chunks.capped(chunks.in_sum_dtype(product))
            counts, true = chunks.is_scored[start:stop], chunks.targets[start:stop]
            predicted[start:stop] = logits.argmax(1)
            picked = logits.gather(1, true).squeeze(1)
            each = (probabilities_(logits) - picked) * counts
            losses[start:stop] = each
            loss += each.sum(dtype=torch.float64)
    correct = ((predicted == chunks.targets.squeeze(1)) & chunks.is_scored).sum()
    return Scores(loss=loss, correct=correct, count=chunks.is_scored.sum(), predicted=predicted, losses=losses)


class _RowChunks:
    """The rows of one call, cast for their matrix products, and the buffers they share."""

    def __init__(
        self,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        workspace: Workspace,
        cap: float | None,
    ) -> None:
        self.dtype = _product_dtype(features, weight, workspace.planned_for or features.device.type)
        self.sum_dtype = torch.float32 if self.dtype in _HALVES else self.dtype
        self.workspace, self.cap = workspace, cap
        self.features = features.to(self.dtype)
        self.weight = weight if weight.dtype == self.dtype else self.buffer("weight", weight.shape).copy_(weight)
        self.bias = None if bias is None else bias.to(self.dtype)
        self.is_scored = targets != IGNORED
        # To ask an accelerator would mean to wait for it.
        self.any_ignored = targets.device.type != "cpu" or not bool(self.is_scored.all())
        self.targets = torch.where(self.is_scored, targets, 0).unsqueeze(1)
        rows = workspace.chunk_rows(len(features), len(weight), features.device)
        self.rows = min(rows, _ROWS_IN_FP16) if self.dtype == torch.float16 else rows

    def buffer(self, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
        return self.workspace.take(name, shape, self.features, dtype or self.dtype)

    def bounds(self) -> list[tuple[int, int]]:
        num_rows = len(self.features)
        return _split(0, num_rows, self.rows)

    def logits(self, start: int, stop: int) -> Tensor:
        """Return the chunk's logits in the dtype of products; the next chunk overwrites them."""
        product = self.buffer("product", (stop - start, len(self.weight)))
        torch.mm(self.features[start:stop], self.weight.T, out=product)
        if self.bias is not None:
            product += self.bias
        return product

    def blocks(self) -> Iterator[tuple[int, int, Tensor]]:
        """Yield the logits of all chunks, so many rows at a time as a cache holds: first row, last row, logits."""
        for start, stop in self.workspace.turns(self.bounds()):
            product = self.logits(start, stop)
            for first, last in self.parts(start, stop):
                yield first, last, product[first - start : last - start]

    def parts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the rows that a cache holds."""
        rows = self.workspace.part_rows(stop - start, len(self.weight), self.features.device)
        return self.workspace.turns(_split(start, stop, rows))

    def in_sum_dtype(self, product: Tensor) -> Tensor:
        """Return the logits in the dtype of sums: these tensors themselves, or a copy that the next one overwrites."""
        if self.dtype == self.sum_dtype:
            return product
        return self.buffer("sums", tuple(product.shape), self.sum_dtype).copy_(product)

    def capped(self, logits: Tensor) -> Tensor:
        """Make logits into cap tanh(logits / cap) in place, where there is a cap."""
        return logits if self.cap is None else logits.div_(self.cap).tanh_().mul_(self.cap)

    def slopes(self, capped: Tensor) -> Tensor | None:
        """Return the derivatives 1 - tanh^2 of capped logits, which the next ones overwrite; None without a cap."""
        if self.cap is None:
            return None
        slopes = self.buffer("slopes", tuple(capped.shape), self.sum_dtype)
        return torch.div(capped, self.cap, out=slopes).square_().neg_().add_(1)


def _split(start: int, stop: int, rows: int) -> list[tuple[int, int]]:
    """Return the bounds of so many rows at a time."""
    return [(first, min(first + rows, stop)) for first in range(start, stop, max(1, rows))]


def probabilities_(logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """Return each row's log-sum-exp; `logits` become probabilities in place.

    The largest probability is exp(largest logit - log-sum-exp) and never small, so its logarithm gives the sum back.
    """
    highest = logits.amax(1)
    torch.softmax(logits, 1, out=logits)
    return highest - logits.amax(1).log()


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        cap: float | None,
        smoothing: float,
        workspace: Workspace,
        grad_enabled: bool,
    ) -> Tensor:
        needs = [grad_enabled and need for need in ctx.needs_input_grad[:3]]
        # Autocast says in which format it multiplies.
        chunks = _RowChunks(features, weight, bias, targets, workspace, cap)
        with without_autocast(features):
            gradients = _Gradients(chunks, needs)
            losses = torch.zeros(len(features), dtype=chunks.sum_dtype, device=features.device)
            for start, stop in workspace.turns(chunks.bounds()):
                product = chunks.logits(start, stop)
                for first, last in chunks.parts(start, stop):
                    logits = product[first - start : last - start]
                    scores = chunks.capped(chunks.in_sum_dtype(logits))
                    slopes = chunks.slopes(scores) if any(needs) else None
                    true_logits = (1 - smoothing) * scores.gather(1, chunks.targets[first:last]).squeeze(1)
                    if smoothing:
                        true_logits += smoothing * scores.mean(1)
                    losses[first:last] = (probabilities_(scores) - true_logits) * chunks.is_scored[first:last]
                    if any(needs):
                        _logit_gradient_(scores, chunks, first, last, smoothing)
                        if slopes is not None:
                            scores *= slopes
                        if scores is not logits:
                            logits.copy_(scores)
                if any(needs):
                    gradients.add(start, stop, product)
        ctx.save_for_backward(*gradients.tensors)
        ctx.dtypes = (features.dtype, weight.dtype, None if bias is None else bias.dtype)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        # In place: a second backward through the same graph is refused by autograd's own version check.
        scaled = [
            None if saved is None else saved.mul_(grad_output).to(dtype)
            for saved, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return (*scaled, None, None, None, None, None)


def _logit_gradient_(probabilities: Tensor, chunks: _RowChunks, start: int, stop: int, smoothing: float) -> None:
    """Make probabilities into softmax - target distribution in place; zero in rows that do not count."""
    targets, counts = chunks.targets[start:stop], chunks.is_scored[start:stop].unsqueeze(1).to(probabilities.dtype)
    if smoothing:
        probabilities -= smoothing / probabilities.shape[1]
    probabilities.scatter_add_(1, targets, torch.full_like(counts, smoothing - 1))
    if chunks.any_ignored:
        probabilities *= counts


class _Gradients:
    """Sums of the gradients by features, weight and bias over the chunks, as far as they are needed."""

    def __init__(self, chunks: _RowChunks, needs: list[bool]) -> None:
        self.chunks = chunks
        empty, dtype = not len(chunks.features), chunks.sum_dtype
        self.features = torch.empty_like(chunks.features) if needs[0] else None
        self.weight = torch.empty_like(chunks.weight, dtype=dtype) if needs[1] else None
        self.bias = torch.zeros(len(chunks.weight), dtype=dtype, device=chunks.weight.device) if needs[2] else None
        if empty and self.weight is not None:
            self.weight.zero_()

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        return self.features, self.weight, self.bias

    def add(self, start: int, stop: int, gradient: Tensor) -> None:
        chunks = self.chunks
        if self.features is not None:
            torch.mm(gradient, chunks.weight, out=self.features[start:stop])
        if self.weight is not None:
            self._add_weight(gradient.T, chunks.features[start:stop], first=start == 0)
        if self.bias is not None:
            self.bias += gradient.sum(0, dtype=self.bias.dtype)

    def _add_weight(self, gradient: Tensor, features: Tensor, *, first: bool) -> None:
        assert self.weight is not None
        if self.weight.dtype == gradient.dtype:
            torch.addmm(self.weight, gradient, features, beta=0 if first else 1, out=self.weight)
            return
        product = self.chunks.buffer("weight_product", self.weight.shape)
        torch.mm(gradient, features, out=product)
        if first:
            self.weight.copy_(product)
        else:
            self.weight += product


def _product_dtype(features: Tensor, weight: Tensor, kind: str) -> torch.dtype:
    """Return the dtype that a linear layer would compute in on this type of device: autocast's choice, which leaves
    float64 alone."""
    dtype = torch.promote_types(features.dtype, weight.dtype)
    if dtype != torch.float64 and torch.is_autocast_enabled(features.device.type):
        dtype = torch.get_autocast_dtype(features.device.type)
    # A processor without fast units for bf16 multiplies float32, and exacter, in half the time or less.
    return torch.float32 if kind == "cpu" and dtype in _HALVES and not _has_units(dtype) else dtype


_HALVES = (torch.bfloat16, torch.float16)


@cache
def _has_units(dtype: torch.dtype) -> bool:
    if dtype == torch.bfloat16 and multiplies_bf16_slowly():
        return False
    name = "bf16" if dtype == torch.bfloat16 else "fp16"
    return bool(getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")())
