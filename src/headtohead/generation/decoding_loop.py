"""The loop that writes: choose a token for every row, read it, and so on until all rows have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.decoder import DecodingModel, DecodingState, select_rows
from headtohead.errors import UsageError
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.generation.token_sampler import TokenSampler


def as_batch(
    prompts: Sequence[Sequence[int]], model: DecodingModel, device: torch.device
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"] | None]:
    """Return the prompts as a tensor of tokens and a mask of the real ones, None where all are real. Padding is token
    0, which no position attends to."""
    if not prompts or not all(prompts):
        raise UsageError("a prompt has no tokens: give it at least one")
    longest = max(map(len, prompts))
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    valid = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        index = slice(0, len(prompt)) if model.reads_source else slice(longest - len(prompt), longest)
        tokens[row, index] = torch.tensor(prompt)
        valid[row, index] = True
    return tokens.to(device), None if bool(valid.all()) else valid.to(device)


def read_prompt(prompts: Sequence[Sequence[int]], model: DecodingModel, bos_id: int) -> list[Sequence[int]]:
    """Return what precedes each text in the sequence that the model continues: the prompt, or the start token where the
    prompt is a separate source."""
    return [[bos_id] if model.reads_source else prompt for prompt in prompts]


Choose = Callable[[Float[Tensor, "B V"]], Int[Tensor, " B"]]
"""One token for every row, given the logits."""


def steps(
    model: DecodingModel, logits: Float[Tensor, "B V"], state: DecodingState, *, choose: Choose, max_new_tokens: int
) -> Iterator[Int[Tensor, " B"]]:
    """Yield a token for every row, `max_new_tokens` times; the caller may stop earlier."""
    for left in range(max_new_tokens, 0, -1):
        token = choose(logits)
        yield token
        if left > 1:
            logits = model.decode_step(token[:, None], state)


@torch.inference_mode()
def stream(
    model: DecodingModel,
    prompts: Sequence[Sequence[int]],
    strategy: DecodingStrategy,
    *,
    bos_id: int,
    has_ended: Callable[[int, int], bool],
) -> Iterator[list[tuple[int, int]]]:
    """Yield the next token of every unfinished row, step by step, as (row, token). Rows are the samples of the first
    prompt, then those of the second, and so on; `has_ended` receives each row and token and decides which token was the
    last."""
    device = next(model.parameters()).device
    tokens, valid = as_batch(prompts, model, device)
    logits, state = model.prefill(tokens, valid, room=strategy.max_new_tokens, bos_id=bos_id)
    read = read_prompt(prompts, model, bos_id)
    choose = TokenSampler(strategy, prompts, read, vocab_size=logits.shape[-1], device=device)
    if strategy.num_samples > 1:
        rows = torch.arange(len(prompts), device=device).repeat_interleave(strategy.num_samples)
        select_rows(state, rows)
        logits = logits[rows]
    going = list(range(len(logits)))
    for written in steps(model, logits, state, choose=choose, max_new_tokens=strategy.max_new_tokens):
        column = written.tolist()
        new = [(row, column[row]) for row in going]
        yield new
        going = [row for row, token in new if not has_ended(row, token)]
        if not going:
            return


@torch.no_grad()
def greedy(
    model: DecodingModel,
    tokens: Int[Tensor, "B L"],
    valid: Bool[Tensor, "B L"] | None = None,
    *,
    max_length: int,
    bos_id: int = 1,
    eos_id: int | None = None,
) -> Int[Tensor, "B T"]:
    """Return the likeliest next token, `max_length` times; a row that has ended repeats `eos_id`."""
    with model.writing():
        logits, state = model.prefill(tokens, valid, room=max_length, bos_id=bos_id)
        written = torch.full((len(tokens), max_length), 0 if eos_id is None else eos_id, device=tokens.device)
        finished = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)

        def likeliest(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
            token = logits.argmax(-1)
            return token if eos_id is None else token.masked_fill(finished, eos_id)

        for index, token in enumerate(steps(model, logits, state, choose=likeliest, max_new_tokens=max_length)):
            written[:, index] = token
            if eos_id is not None:
                finished |= token == eos_id
                if bool(finished.all()):
                    break
    return written
