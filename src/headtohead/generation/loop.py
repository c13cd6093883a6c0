"""The loop that writes: choose a token for every row, read it, and so on until all rows have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.decoding import Decodes, Decoding, select_rows
from headtohead.generation.choosing import Chooser
from headtohead.generation.prompts import as_batch, read_before
from headtohead.generation.strategy import Strategy

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


@torch.inference_mode()
def stream(
    model: Decodes,
    prompts: Sequence[Sequence[int]],
    how: Strategy,
    *,
    bos_id: int,
    has_ended: Callable[[int, int], bool],
) -> Iterator[list[tuple[int, int]]]:
    """The next token of every row that goes on, step by step: (row, token). Rows are the samples of the first prompt,
    then those of the second, and so on; `has_ended` is told each row and token, and says which token was the last."""
    device = next(model.parameters()).device
    tokens, valid = as_batch(prompts, model, device)
    logits, state = model.start(tokens, valid, room=how.max_new_tokens, bos_id=bos_id)
    read = read_before(prompts, model, bos_id)
    choose = Chooser(how, prompts, read, vocab_size=logits.shape[-1], device=device)
    if how.num_samples > 1:
        rows = torch.arange(len(prompts), device=device).repeat_interleave(how.num_samples)
        select_rows(state, rows)
        logits = logits[rows]
    going = list(range(len(logits)))
    for written in steps(model, logits, state, choose=choose, max_new_tokens=how.max_new_tokens):
        column = written.tolist()
        new = [(row, column[row]) for row in going]
        yield new
        going = [row for row, token in new if not has_ended(row, token)]
        if not going:
            return


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
    with model.writing():
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
