"""How likely a language model finds what it is given: continuations of contexts, and choices between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.decoding import Decodes, Decoding, select_rows
from headtohead.errors import UsageError
from headtohead.generation.prompts import as_batch

Tokens = Sequence[int]
Told = Callable[[int], None]
"""Told how many rows are done."""


class TooLongToScoreError(UsageError):
    """Says which row is longer than what the model has positions for."""


@dataclass(frozen=True)
class Likelihood:
    """Of one continuation."""

    log_likelihood: float
    """The sum over its tokens, in nats."""
    is_greedy: bool
    """Whether each of its tokens is the likeliest one."""


@torch.no_grad()
def likelihoods(
    model: Architecture, rows: Sequence[tuple[Tokens, Tokens]], *, batch_size: int = 32, told: Told | None = None
) -> list[Likelihood]:
    """Of the second part of each row after its first, which must have a token: whole rows at once, the longest first,
    padded on the right."""
    found: dict[int, Likelihood] = {}
    order = sorted(range(len(rows)), key=lambda row: -sum(map(len, rows[row])))
    device = next(model.parameters()).device
    for start in range(0, len(order), batch_size):
        taken = order[start : start + batch_size]
        whole = [[*rows[row][0], *rows[row][1]] for row in taken]
        _check_room(model, max(map(len, whole)) - 1)
        longest = max(map(len, whole)) - 1
        tokens = torch.tensor([[*one[:-1], *[0] * (longest + 1 - len(one))] for one in whole], device=device)
        valid = torch.arange(longest, device=device) < torch.tensor([[len(one) - 1] for one in whole], device=device)
        features = model.features(tokens=tokens, valid=None if bool(valid.all()) else valid)
        for place, row in enumerate(taken):
            context, continuation = rows[row]
            first = len(context) - 1
            shares = _log_shares(model.head(features[place, first : first + len(continuation)]))
            wanted = torch.tensor(list(continuation), device=device)
            said = shares.gather(1, wanted[:, None]).sum()
            found[row] = Likelihood(float(said), bool((shares.argmax(1) == wanted).all()))
        if told is not None:
            told(len(found))
    return [found[row] for row in range(len(rows))]


@torch.no_grad()
def choice_likelihoods(
    model: Architecture,
    contexts: Sequence[Tokens],
    choices: Sequence[Tokens],
    *,
    shared: Tokens = (),
    batch_size: int = 32,
) -> Float[Tensor, "N C"]:
    """The log-likelihood of every choice after `shared` and each context.

    A model that writes reads each context once for all choices. What all contexts share it reads once too, where that
    is longer than they are: contexts that go on from there are read together where they are as long as each other.
    """
    if not isinstance(model, Decodes) or model.reads_source:
        rows = [([*shared, *context], choice) for context in contexts for choice in choices]
        found = likelihoods(model, rows, batch_size=batch_size)
        return torch.tensor([one.log_likelihood for one in found]).view(len(contexts), len(choices))
    longest, longest_choice = max(map(len, contexts)), max(map(len, choices))
    _check_room(model, len(shared) + longest + longest_choice - 1)
    scores = torch.empty(len(contexts), len(choices), dtype=torch.float64)
    with model.writing():
        read = _read_at_once if len(shared) <= longest else _read_after
        for rows_read, logits, state in read(model, contexts, shared, longest_choice, batch_size):
            scores[rows_read] = _of_choices(model, logits, state, choices).double().cpu()
    return scores


_Read = Iterator[tuple[list[int], Float[Tensor, "B V"], Decoding]]
"""Rows, the logits of the token after them, and where the model stands."""


def _read_at_once(model: Decodes, contexts: Sequence[Tokens], shared: Tokens, room: int, batch_size: int) -> _Read:
    """Whole rows of about the same length, padded on the left."""
    device = next(model.parameters()).device
    order = sorted(range(len(contexts)), key=lambda row: len(contexts[row]))
    for start in range(0, len(order), batch_size):
        taken = order[start : start + batch_size]
        tokens, valid = as_batch([[*shared, *contexts[row]] for row in taken], model, device)
        yield taken, *model.start(tokens, valid, room=room, bos_id=0)


def _read_after(model: Decodes, contexts: Sequence[Tokens], shared: Tokens, room: int, batch_size: int) -> _Read:
    """From one reading of what is shared."""
    device = next(model.parameters()).device
    whole = torch.tensor([list(shared)], device=device)
    begun = model.start(whole, None, room=room + max(map(len, contexts)), bos_id=0)[1]
    for taken in _of_one_length(contexts, batch_size):
        tokens = torch.tensor([list(contexts[row]) for row in taken], device=device)
        state = deepcopy(begun)
        select_rows(state, torch.zeros(len(taken), dtype=torch.long, device=device))
        yield taken, model.advance(tokens, state), state


def _of_choices(
    model: Decodes, logits: Float[Tensor, "B V"], state: Decoding, choices: Sequence[Tokens]
) -> Float[Tensor, "B C"]:
    """The first token of every choice is scored at once; then rows go on with each choice apart, token by token."""
    size, count, longest = len(logits), len(choices), max(map(len, choices))
    filled = torch.tensor([[*choice, *[0] * (longest - len(choice))] for choice in choices], device=logits.device)
    lengths = torch.tensor([len(choice) for choice in choices], device=logits.device)
    scores = _log_shares(logits)[:, filled[:, 0]]
    if longest == 1:
        return scores
    select_rows(state, torch.arange(size, device=logits.device).repeat_interleave(count))
    for place in range(1, longest):
        logits = model.advance(filled[:, place - 1].repeat(size)[:, None], state)
        said = _log_shares(logits).gather(1, filled[:, place].repeat(size)[:, None])
        scores = scores + torch.where(place < lengths, said.view(size, count), 0.0)
    return scores


def _of_one_length(contexts: Sequence[Tokens], batch_size: int) -> Iterator[list[int]]:
    """Rows whose contexts have as many tokens."""
    order = sorted(range(len(contexts)), key=lambda row: len(contexts[row]))
    for _, alike in groupby(order, key=lambda row: len(contexts[row])):
        rows = list(alike)
        for start in range(0, len(rows), batch_size):
            yield rows[start : start + batch_size]


def _log_shares(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
    """Sums over a vocabulary need more than a half precision."""
    wide = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    return wide.log_softmax(-1)


def _check_room(model: Architecture, longest: int) -> None:
    limit = model.longest_written if isinstance(model, Decodes) else None
    if limit is not None and longest > limit:
        raise TooLongToScoreError(
            f"a prompt with its choice has {longest} tokens, and the model has positions for {limit}: show fewer "
            "examples, cut texts (data.max_length), or take a model whose positions are no table (rotary, alibi)"
        )
