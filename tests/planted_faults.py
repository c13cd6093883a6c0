"""Parts with one mistake each, as a user would write them and name them by `_target_`: what the doctor must find."""

from __future__ import annotations

from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.linear_maps import DecodingMap
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.norms import LayerNorm


class ForgetsTheMask(SoftmaxAttention):
    """Every token sees all of its document."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        q, k, v = self.project(x, context)
        scores = self.scale * q @ k.mT
        if context.segments is not None:
            same = context.segments[:, None, :, None] == context.segments[:, None, None, :]
            scores = scores.masked_fill(~same, float("-inf"))
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class ForgetsTheMaskInTraining(ForgetsTheMask):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context) if self.training else SoftmaxAttention.forward(self, x, context)


class DividesByNothing(SoftmaxAttention):
    """No scaling by the head's width, in forward; attention() still names what should be."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        usual, self.scale = self.scale, 1.0
        y = super().forward(x, context)
        self.scale = usual
        return y


class LooksAtAllAlike(SoftmaxAttention):
    """Its queries are lost."""

    def project(self, x: Tensor, context: Context, fused: DecodingMap | None = None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x, context, fused)
        return q * 1e-6, k, v


class IsFrozen(SoftmaxAttention):
    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        heads: AttentionHeads = AttentionHeads(),
        score_cap: float | None = None,
        rotated: bool = True,
    ) -> None:
        options = {"dropout": dropout, "score_cap": score_cap, "rotated": rotated}
        super().__init__(d_model, num_heads=num_heads, causal=causal, heads=heads, **options)
        self.requires_grad_(False)


class StopsTheGradient(SoftmaxAttention):
    """Its weights are not frozen, and learn nothing."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context).detach()


class ReadsPadding(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, replace(context, bias=None, allowed=None))


class MasksWithZero(SoftmaxAttention):
    """Scores of padding are left at 0, which is not a mask."""

    def full_bias(self, q: Tensor, context: Context) -> Tensor | None:
        bias = super().full_bias(q, context)
        return None if bias is None else bias.clamp(min=-1.0)


class ReadsThePaddingOfItsMemory(SoftmaxCrossAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, replace(context, memory_valid=None))


class NeverReadsItsMemory(SoftmaxCrossAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        assert context.memory is not None
        return super().forward(x, replace(context, memory=context.memory * 0.0))


class MixesRows(SoftmaxAttention):
    """Folds the batch and the tokens in another order than it unfolds them."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        return y.transpose(0, 1).reshape(y.shape)


class IgnoresDocuments(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, replace(context, bias=None, allowed=None))


class DropsInEvaluation(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return F.dropout(super().forward(x, context), 0.1)


class MakesNoNumbers(LayerNorm):
    """The logarithm of what may be negative."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x, context).log()


class ForgetsItsInput(LayerNorm):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return super().forward(x * 0.0, context)


class Explodes(LayerNorm):
    """Grows a thousandfold on the way down, and is blamed by its gradient alone."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        y = super().forward(x, context)
        return y + 1000.0 * (y - y.detach())


class BreaksDown(SoftmaxAttention):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        raise RuntimeError("the kernel was built for another device")
