"""The choice of the next token of every row, with what it must remember of the rows so far."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.generation.sampling import draw, top_k, top_p, with_repetition_penalty
from headtohead.generation.strategy import Strategy


class Chooser:
    """One token for every row; rows are the samples of the first prompt, then those of the second, and so on."""

    def __init__(
        self,
        how: Strategy,
        prompts: Sequence[Sequence[int]],
        read: Sequence[Sequence[int]],
        *,
        vocab_size: int,
        device: torch.device,
    ) -> None:
        """`read` is what stands before each text in what the model goes on with."""
        self.how, self.written = how, 0
        self.seen = None
        if how.repetition_penalty != 1.0:
            self.seen = seen_tokens(read, vocab_size, device).repeat_interleave(how.num_samples, dim=0)
        self.uniforms = _uniforms(how, prompts).to(device) if how.draws else None

    def __call__(self, logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        if self.seen is not None:
            logits = with_repetition_penalty(logits, self.seen, self.how.repetition_penalty)
        token = logits.argmax(-1) if self.uniforms is None else self._drawn(logits, self.uniforms[self.written])
        if self.seen is not None:
            self.seen.scatter_(1, token[:, None], True)
        self.written += 1
        return token

    def _drawn(self, logits: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
        how = self.how
        if how.temperature is not None and how.temperature != 1.0:
            logits = logits / how.temperature
        if how.top_k is not None:
            logits = top_k(logits, how.top_k)
        if how.top_p is not None:
            logits = top_p(logits, how.top_p)
        return draw(logits, uniform)


def seen_tokens(read: Sequence[Sequence[int]], vocab_size: int, device: torch.device) -> Bool[Tensor, "B V"]:
    """Which tokens each row holds."""
    seen = torch.zeros(len(read), vocab_size, dtype=torch.bool)
    for row, tokens in enumerate(read):
        seen[row, list(tokens)] = True
    return seen.to(device)


def _uniforms(how: Strategy, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "T B"]:
    """The luck of every row, made of the seed, the prompt and the number of the sample: neither the other prompts of a
    batch nor more samples change a text."""
    rows = []
    for prompt in prompts:
        for sample in range(how.num_samples):
            luck = zlib.crc32(repr((how.seed, sample, list(prompt))).encode())
            generator = torch.Generator().manual_seed(luck)
            rows.append(torch.rand(how.max_new_tokens, generator=generator, dtype=torch.float64))
    return torch.stack(rows, dim=1)
