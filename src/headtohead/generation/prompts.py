"""Prompts of unequal length as one batch, padded on the side that the model can do without."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.architectures.decoding import Decodes
from headtohead.errors import UsageError


def as_batch(
    prompts: Sequence[Sequence[int]], model: Decodes, device: torch.device
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"] | None]:
    """Tokens, and which of them are real; None where all are. Padding is token 0, which nothing looks at."""
    if not prompts or not all(prompts):
        raise UsageError("a prompt has no tokens: give it at least one")
    longest = max(map(len, prompts))
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    valid = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        place = slice(0, len(prompt)) if model.reads_source else slice(longest - len(prompt), longest)
        tokens[row, place] = torch.tensor(prompt)
        valid[row, place] = True
    return tokens.to(device), None if bool(valid.all()) else valid.to(device)


def read_before(prompts: Sequence[Sequence[int]], model: Decodes, bos_id: int) -> list[Sequence[int]]:
    """What stands before each text in what the model goes on with: its prompt, or, where that is a source of its own,
    the start token."""
    return [[bos_id] if model.reads_source else prompt for prompt in prompts]
