"""Rows of a batch written by beam search, as a task asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.architectures.decoding import Decodes
from headtohead.data.contracts import DataSpec
from headtohead.errors import UsageError
from headtohead.generation.beams import search
from headtohead.generation.strategy import Strategy


@dataclass(frozen=True)
class Searching:
    """How a test writes; one beam is the likeliest token each time."""

    beams: int = 1
    length_penalty: float = 1.0
    max_new_tokens: int | None = None
    """None: as many as the longest target has."""

    def __post_init__(self) -> None:
        for field, least in (("beams", 1), ("max_new_tokens", 1)):
            value = getattr(self, field)
            if value is not None and value < least:
                raise UsageError(f"task.{field}={value} must be at least {least}.")

    def length(self, longest: int) -> int:
        return longest if self.max_new_tokens is None else min(longest, self.max_new_tokens)

    def told(self) -> str:
        """What makes figures other than those of greedy writing; empty where nothing does."""
        words = [f"{self.beams} beams, length penalty {self.length_penalty}"] if self.beams > 1 else []
        words += [] if self.max_new_tokens is None else [f"at most {self.max_new_tokens} tokens"]
        return ", ".join(words)


def searched(
    model: Decodes,
    tokens: Int[Tensor, "B L"],
    valid: Bool[Tensor, "B L"] | None,
    how: Searching,
    *,
    length: int,
    spec: DataSpec,
) -> Int[Tensor, "B T"]:
    """The best text of each row, the end of a shorter one repeated."""
    kept = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
    prompts = [row[real].tolist() for row, real in zip(tokens, kept, strict=True)]
    strategy = Strategy(max_new_tokens=length, beams=how.beams, length_penalty=how.length_penalty)
    with model.writing():
        found = search(model, prompts, strategy, bos_id=spec.bos_id, ends=[spec.eos_id])
    written = torch.full((len(prompts), length), spec.eos_id)
    for row, texts in enumerate(found):
        written[row, : len(texts[0].tokens)] = torch.tensor(texts[0].tokens)
    return written.to(tokens.device)
