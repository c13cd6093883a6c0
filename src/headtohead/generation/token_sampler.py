"""The next token of every row is chosen here, with the state that this choice needs of the rows so far."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.precision import at_least_float32
from headtohead.generation.decoding_strategy import DecodingStrategy

_NEVER = float("-inf")


def with_repetition_penalty(
    logits: Float[Tensor, "B V"], seen: Bool[Tensor, "B V"], penalty: float
) -> Float[Tensor, "B V"]:
    """Divide the positive logits of tokens already seen by the penalty and multiply the negative ones (Keskar et al.
    2019, https://arxiv.org/abs/1909.05858, section 4.1, which divides both: a negative one would rise)."""
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalised, logits)


def top_k(logits: Float[Tensor, "B V"], k: int) -> Float[Tensor, "B V"]:
    """Rule out all but the k likeliest tokens (Fan et al. 2018, https://arxiv.org/abs/1805.04833)."""
    if k >= logits.shape[-1]:
        return logits
    least = logits.topk(k, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, _NEVER)


def top_p(logits: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    """Rule out all tokens but the nucleus: the fewest tokens, likeliest first, that hold a share p of the probability
    (Holtzman et al. 2020, https://arxiv.org/abs/1904.09751)."""
    ordered, order = logits.sort(dim=-1, descending=True)
    shares = ordered.softmax(-1, dtype=at_least_float32(logits.dtype))
    before = shares.cumsum(-1) - shares
    outside = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, order, before >= p)
    return logits.masked_fill(outside, _NEVER)


def draw(logits: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    """Return the token at which the cumulative probability exceeds a uniform number from [0, 1)."""
    sums = logits.softmax(-1, dtype=torch.float64).cumsum(-1)
    # The last sum is 1 but for rounding; a token that cannot be has the sum of the one before it, and is passed over.
    return torch.searchsorted(sums, uniform[:, None] * sums[:, -1:], right=True)[:, 0]


class TokenSampler:
    """One token for every row; rows are the samples of the first prompt, then those of the second, and so on."""

    def __init__(
        self,
        strategy: DecodingStrategy,
        prompts: Sequence[Sequence[int]],
        read: Sequence[Sequence[int]],
        *,
        vocab_size: int,
        device: torch.device,
    ) -> None:
        """Set up the choice; `read` is what precedes each text in the sequence that the model continues."""
        self.strategy, self.written = strategy, 0
        self.seen = None
        if strategy.repetition_penalty != 1.0:
            self.seen = seen_tokens(read, vocab_size, device).repeat_interleave(strategy.num_samples, dim=0)
        self.uniforms = _uniforms(strategy, prompts).to(device) if strategy.is_sampled else None

    def __call__(self, logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        if self.seen is not None:
            logits = with_repetition_penalty(logits, self.seen, self.strategy.repetition_penalty)
        token = logits.argmax(-1) if self.uniforms is None else self._drawn(logits, self.uniforms[self.written])
        if self.seen is not None:
            self.seen.scatter_(1, token[:, None], True)
        self.written += 1
        return token

    def _drawn(self, logits: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
        strategy = self.strategy
        if strategy.temperature is not None and strategy.temperature != 1.0:
            logits = logits / strategy.temperature
        if strategy.top_k is not None:
            logits = top_k(logits, strategy.top_k)
        if strategy.top_p is not None:
            logits = top_p(logits, strategy.top_p)
        return draw(logits, uniform)


def seen_tokens(read: Sequence[Sequence[int]], vocab_size: int, device: torch.device) -> Bool[Tensor, "B V"]:
    """Return a mask of the tokens that each row contains."""
    seen = torch.zeros(len(read), vocab_size, dtype=torch.bool)
    for row, tokens in enumerate(read):
        seen[row, list(tokens)] = True
    return seen.to(device)


def _uniforms(strategy: DecodingStrategy, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "T B"]:
    """Return the random numbers of every row, derived from the seed, the prompt and the sample's number: neither the
    other prompts of a batch nor more samples change a text."""
    rows = []
    for prompt in prompts:
        for sample in range(strategy.num_samples):
            key = zlib.crc32(repr((strategy.seed, sample, list(prompt))).encode())
            generator = torch.Generator().manual_seed(key)
            rows.append(torch.rand(strategy.max_new_tokens, generator=generator, dtype=torch.float64))
    return torch.stack(rows, dim=1)
