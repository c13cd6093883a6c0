"""The loop that writes: choose a token for every row, read it, and so on until all rows have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.decoding import Decodes, Decoding

Choose = Callable[[Float[Tensor, "B V"]], Int[Tensor, " B"]]
"""One token for every row, given the logits."""


def steps(
    model: Decodes, logits: Float[Tensor, "B V"], state: Decoding, *, choose: Choose, max_new_tokens: int
) -> Iterator[Int[Tensor, " B"]]:
    """A token for every row, `max_new_tokens` times; whoever takes them may stop earlier."""
    for left in range(max_new_tokens, 0, -1):
        token = choose(logits)
        yield token
        if left > 1:
            logits = model.advance(token[:, None], state)


@torch.no_grad()
def greedy(
    model: Decodes,
    tokens: Int[Tensor, "B L"],
    valid: Bool[Tensor, "B L"] | None = None,
    *,
    max_length: int,
    bos_id: int = 1,
    eos_id: int | None = None,
) -> Int[Tensor, "B T"]:
    """The likeliest token after those before it, `max_length` times; a row that has ended repeats `eos_id`."""
    logits, state = model.start(tokens, valid, room=max_length, bos_id=bos_id)
    written = torch.full((len(tokens), max_length), 0 if eos_id is None else eos_id, device=tokens.device)
    finished = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)

    def likeliest(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        token = logits.argmax(-1)
        return token if eos_id is None else token.masked_fill(finished, eos_id)

    for place, token in enumerate(steps(model, logits, state, choose=likeliest, max_new_tokens=max_length)):
        written[:, place] = token
        if eos_id is not None:
            finished |= token == eos_id
            if bool(finished.all()):
                break
    return written
