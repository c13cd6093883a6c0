"""The likelihood that a language model assigns to given continuations of contexts, and to choices between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.architecture import Architecture, DecodingModel, DecodingState, select_rows
from headtohead.errors import UsageError
from headtohead.generation.decoding_loop import as_batch

Tokens = Sequence[int]
ReportRows = Callable[[int], None]
"""Told how many rows are done."""


class TooLongToScoreError(UsageError):
    """A row is longer than what the model has positions for; the message names it."""


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of one continuation."""

    log_likelihood: float
    """The sum over its tokens, in nats."""
    is_greedy: bool
    """Whether each of its tokens is the most likely one."""


@torch.no_grad()
def likelihoods(
    model: Architecture,
    rows: Sequence[tuple[Tokens, Tokens]],
    *,
    batch_size: int = 32,
    report: ReportRows | None = None,
) -> list[Likelihood]:
    """Return the likelihood of the second part of each row after its first part, which must have a token. Whole rows
    are read at once, the longest first, padded on the right."""
    result: dict[int, Likelihood] = {}
    order = sorted(range(len(rows)), key=lambda row: -sum(map(len, rows[row])))
    device = next(model.parameters()).device
    for start in range(0, len(order), batch_size):
        taken = order[start : start + batch_size]
        full_rows = [[*rows[row][0], *rows[row][1]] for row in taken]
        _check_room(model, max(map(len, full_rows)) - 1)
        longest = max(map(len, full_rows)) - 1
        tokens = torch.tensor([[*one[:-1], *[0] * (longest + 1 - len(one))] for one in full_rows], device=device)
        valid = torch.arange(longest, device=device) < torch.tensor(
            [[len(one) - 1] for one in full_rows], device=device
        )
        features = model.features(tokens=tokens, valid=None if bool(valid.all()) else valid)
        for index, row in enumerate(taken):
            context, continuation = rows[row]
            first = len(context) - 1
            shares = _log_shares(model.head(features[index, first : first + len(continuation)]))
            targets = torch.tensor(list(continuation), device=device)
            predicted = shares.gather(1, targets[:, None]).sum()
            result[row] = Likelihood(float(predicted), bool((shares.argmax(1) == targets).all()))
        if report is not None:
            report(len(result))
    return [result[row] for row in range(len(rows))]


@torch.no_grad()
def choice_likelihoods(
    model: Architecture,
    contexts: Sequence[Tokens],
    choices: Sequence[Tokens],
    *,
    shared: Tokens = (),
    batch_size: int = 32,
) -> Float[Tensor, "N C"]:
    """Return the log-likelihood of every choice after `shared` and each context.

    A model that writes reads each context once for all choices. The shared prefix is read once too, where it is longer
    than the contexts: those of equal length are then continued together from there.
    """
    if not isinstance(model, DecodingModel) or model.reads_source:
        rows = [([*shared, *context], choice) for context in contexts for choice in choices]
        result = likelihoods(model, rows, batch_size=batch_size)
        return torch.tensor([one.log_likelihood for one in result]).view(len(contexts), len(choices))
    longest, longest_choice = max(map(len, contexts)), max(map(len, choices))
    _check_room(model, len(shared) + longest + longest_choice - 1)
    scores = torch.empty(len(contexts), len(choices), dtype=torch.float64)
    with model.writing():
        read = _read_at_once if len(shared) <= longest else _read_after
        for rows_read, logits, state in read(model, contexts, shared, longest_choice, batch_size):
            scores[rows_read] = _choice_scores(model, logits, state, choices).double().cpu()
    return scores


_ScoredRows = Iterator[tuple[list[int], Float[Tensor, "B V"], DecodingState]]
"""Rows, the logits of the token after them, and where the model stands."""


def _read_at_once(
    model: DecodingModel, contexts: Sequence[Tokens], shared: Tokens, room: int, batch_size: int
) -> _ScoredRows:
    """Read whole rows of about the same length together, padded on the left."""
    device = next(model.parameters()).device
    order = sorted(range(len(contexts)), key=lambda row: len(contexts[row]))
    for start in range(0, len(order), batch_size):
        taken = order[start : start + batch_size]
        tokens, valid = as_batch([[*shared, *contexts[row]] for row in taken], model, device)
        yield taken, *model.prefill(tokens, valid, room=room, bos_id=0)


def _read_after(
    model: DecodingModel, contexts: Sequence[Tokens], shared: Tokens, room: int, batch_size: int
) -> _ScoredRows:
    """Read the shared prefix once, and continue each context from that state."""
    device = next(model.parameters()).device
    prefix = torch.tensor([list(shared)], device=device)
    begun = model.prefill(prefix, None, room=room + max(map(len, contexts)), bos_id=0)[1]
    for taken in _of_one_length(contexts, batch_size):
        tokens = torch.tensor([list(contexts[row]) for row in taken], device=device)
        state = deepcopy(begun)
        select_rows(state, torch.zeros(len(taken), dtype=torch.long, device=device))
        yield taken, model.decode_step(tokens, state), state


def _choice_scores(
    model: DecodingModel, logits: Float[Tensor, "B V"], state: DecodingState, choices: Sequence[Tokens]
) -> Float[Tensor, "B C"]:
    """Score the first token of every choice at once, then continue the rows with each choice separately, token by
    token."""
    size, count, longest = len(logits), len(choices), max(map(len, choices))
    filled = torch.tensor([[*choice, *[0] * (longest - len(choice))] for choice in choices], device=logits.device)
    lengths = torch.tensor([len(choice) for choice in choices], device=logits.device)
    scores = _log_shares(logits)[:, filled[:, 0]]
    if longest == 1:
        return scores
    select_rows(state, torch.arange(size, device=logits.device).repeat_interleave(count))
    for index in range(1, longest):
        logits = model.decode_step(filled[:, index - 1].repeat(size)[:, None], state)
        predicted = _log_shares(logits).gather(1, filled[:, index].repeat(size)[:, None])
        scores = scores + torch.where(index < lengths, predicted.view(size, count), 0.0)
    return scores


def _of_one_length(contexts: Sequence[Tokens], batch_size: int) -> Iterator[list[int]]:
    """Yield batches of rows whose contexts have the same number of tokens."""
    order = sorted(range(len(contexts)), key=lambda row: len(contexts[row]))
    for _, alike in groupby(order, key=lambda row: len(contexts[row])):
        rows = list(alike)
        for start in range(0, len(rows), batch_size):
            yield rows[start : start + batch_size]


def _log_shares(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
    """Return log-probabilities in at least float32: sums over a vocabulary need more than half precision."""
    wide = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    return wide.log_softmax(-1)


def _check_room(model: Architecture, longest: int) -> None:
    limit = model.longest_written if isinstance(model, DecodingModel) else None
    if limit is not None and longest > limit:
        raise TooLongToScoreError(
            f"a prompt with its choice has {longest} tokens, and the model has positions for {limit}: show fewer "
            "examples, cut texts (data.max_length), or take a model whose positions are not a table (rotary, alibi)"
        )
