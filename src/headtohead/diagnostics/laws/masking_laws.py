"""Check who may see whom: laws of causality, padding and packed documents."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from headtohead.components.block_parts import FeedForward
from headtohead.components.component import Context, Mixer, Position
from headtohead.components.stack import Stack
from headtohead.diagnostics.laws.law_subject import LawSubject, require_different, require_equal


def causality(subject: LawSubject) -> None:
    """A changed token leaves all outputs before it as they were, in training and in evaluation; where the stack is
    bidirectional, it changes some of them."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    changed_from = subject.length // 2
    other = torch.cat((x[:, :changed_from], subject.inputs(stack, seed=2)[0][:, changed_from:]), dim=1)
    for training in (False, True):
        if training and subject.sees_others_in_training:
            continue
        stack.train(training)
        with torch.no_grad():
            before, after = (stack(tokens, context)[:, :changed_from] for tokens in (x, other))
        mode = "training" if training else "evaluation"
        if stack.causal:
            require_equal(after, before, f"in {mode} a causal output must ignore later tokens")
        else:
            require_different(after, before, f"in {mode} a bidirectional output must see later tokens")


def order_independence(subject: LawSubject) -> None:
    """Tokens in another order have the same outputs in that order, where no part follows it and no position is
    encoded."""
    stack = subject.build()
    if any(map(_follows_order, stack.modules())):
        return
    x, context = subject.inputs(stack)
    order = torch.randperm(subject.length, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        in_another_order, expected = stack(x[:, order], context), stack(x, context)[:, order]
    require_equal(in_another_order, expected, "a mixer that follows no order (follows_order = False) must tell none")


def _follows_order(part: nn.Module) -> bool:
    if isinstance(part, Position):
        return part.adds_to_tokens or part.rotates or part.biases_scores
    return isinstance(part, Mixer | FeedForward) and part.follows_order


def padding_invariance(subject: LawSubject) -> None:
    """Padding changes nothing at real tokens, whatever its content, length and position; the same holds for a
    memory."""
    stack = subject.build()
    memory_lengths = [subject.memory_length, subject.memory_length - 2, 1]
    memory_valid = _valid(memory_lengths, subject.memory_length)
    on_the_right = _valid([subject.length, subject.length - 4, 1], subject.length)
    anywhere = torch.arange(subject.length) >= torch.tensor([4, 1, subject.length - 1])[:, None]
    anywhere[1, 3] = anywhere[1, -2:] = False
    for valid in (on_the_right, anywhere):
        _padding_is_nothing(subject, stack, valid, memory_valid, memory_lengths)


def _padding_is_nothing(
    subject: LawSubject, stack: Stack, valid: Tensor, memory_valid: Tensor, memory_lengths: list[int]
) -> None:
    x, context = subject.inputs(stack)
    context = replace(context, valid=valid, memory_valid=memory_valid if stack.has_cross else None)
    with torch.no_grad():
        before = stack(x, context)
        noise, elsewhere = subject.inputs(stack, seed=2)
        memory = context.memory
        if memory is not None and elsewhere.memory is not None:
            context = replace(context, memory=torch.where(memory_valid[..., None], memory, elsewhere.memory))
        after = stack(torch.where(valid[..., None], x, noise), context)
        require_equal(after[valid], before[valid], "padding must not be seen by real tokens")
        for row, memory_length in enumerate(memory_lengths):
            own = None if memory is None else memory[row : row + 1, :memory_length]
            apart = stack(x[row : row + 1, valid[row]], Context(memory=own))
            require_equal(before[row, valid[row]], apart[0], "a padded row must have the outputs of the unpadded one")


def packed_documents(subject: LawSubject) -> None:
    """Documents packed into one row give what each gives in a row of its own."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    first = subject.length // 3
    second = subject.length - first
    segments = torch.tensor([0] * first + [1] * second).expand(subject.num_rows, -1)
    positions = torch.cat((torch.arange(first), torch.arange(second))).expand(subject.num_rows, -1)
    with torch.no_grad():
        packed = stack(x, replace(context, segments=segments, positions=positions))
        apart = torch.cat([stack(part, context) for part in (x[:, :first], x[:, first:])], dim=1)
    require_equal(packed, apart, "packed documents must have the outputs that they have alone")


def left_padding(subject: LawSubject) -> None:
    """Prompts of unequal length, padded on the left, are decoded together as each is alone."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    room = subject.length - 4
    lengths = torch.tensor([room, room - 3, 1])[: subject.num_rows]
    valid = torch.arange(room) >= room - lengths[:, None]
    positions = (valid.long().cumsum(1) - 1).clamp(min=0)
    state = stack.initial_state(subject.num_rows, subject.length, device=x.device, dtype=subject.dtype)
    with torch.no_grad():
        prompt = replace(context, valid=valid, positions=positions)
        parts = [stack.step(x[:, :room], state, prompt)[0]]
        for step in range(room, subject.length):
            now = replace(context, positions=(lengths + step - room)[:, None])
            y, state = stack.step(x[:, step : step + 1], state, now)
            parts.append(y)
        together = torch.cat(parts, dim=1)
        for row, length in enumerate(lengths.tolist()):
            own = None if context.memory is None else context.memory[row : row + 1]
            alone = stack(x[row : row + 1, room - length :], Context(memory=own))
            message = "a prompt padded on the left must be continued like the unpadded one"
            require_equal(together[row, room - length :], alone[0], message)


def _valid(lengths: list[int], room: int) -> Tensor:
    return torch.arange(room)[None] < torch.tensor(lengths)[:, None]
