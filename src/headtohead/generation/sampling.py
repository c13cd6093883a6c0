"""What is done to logits before a token is drawn from them, and the draw."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_NEVER = float("-inf")


def with_repetition_penalty(
    logits: Float[Tensor, "B V"], seen: Bool[Tensor, "B V"], penalty: float
) -> Float[Tensor, "B V"]:
    """Of tokens already seen, positive logits are divided by the penalty and negative ones multiplied (Keskar et al.
    2019, https://arxiv.org/abs/1909.05858, section 4.1, which divides both: a negative one would rise)."""
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalised, logits)


def top_k(logits: Float[Tensor, "B V"], k: int) -> Float[Tensor, "B V"]:
    """All but the k likeliest out of the question (Fan et al. 2018, https://arxiv.org/abs/1805.04833)."""
    if k >= logits.shape[-1]:
        return logits
    least = logits.topk(k, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, _NEVER)


def top_p(logits: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    """All but the nucleus out of the question: the fewest tokens, likeliest first, that hold a share p of the
    probability (Holtzman et al. 2020, https://arxiv.org/abs/1904.09751)."""
    ordered, order = logits.sort(dim=-1, descending=True)
    shares = ordered.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    before = shares.cumsum(-1) - shares
    outside = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, order, before >= p)
    return logits.masked_fill(outside, _NEVER)


def draw(logits: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    """The token at which the summed probabilities pass a number drawn evenly from [0, 1)."""
    sums = logits.softmax(-1, dtype=torch.float64).cumsum(-1)
    # The last sum is 1 but for rounding; a token that cannot be has the sum of the one before it, and is passed over.
    return torch.searchsorted(sums, uniform[:, None] * sums[:, -1:], right=True)[:, 0]
