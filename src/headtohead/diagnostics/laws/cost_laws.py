"""Check that a stack's declared costs are its counted costs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.component import Context, Mixer
from headtohead.components.costs import CostContext
from headtohead.components.stack import Stack
from headtohead.diagnostics.laws.law_subject import LawBroken, LawSubject


def declared_parameters(subject: LawSubject) -> None:
    """Every parameter is declared, and once."""
    stack = subject.build()
    _require(
        "parameters", stack.costs(_query(subject, stack)).parameters, sum(p.numel() for p in stack.parameters()), 0.0
    )


def declared_flops(subject: LawSubject) -> None:
    """Matrix products of one sequence, forward and with backward, exactly; counted on the slow twin where there is one,
    since a fast form may do more work than the mathematics asks for; a Fourier transform does less, and is counted."""
    subject = replace(subject, length=min(subject.length, 5))  # counting is slow, and 5 tells squares from lines
    stack = subject.build()
    if not any(isinstance(part, Mixer) and part.transforms for part in stack.modules()):
        stack = subject.build(slow=True)
    x, context = _one_row(subject, stack)
    declared = stack.costs(_query(subject, stack))
    with counting() as forward:
        y = stack(x, context)
    with counting() as backward:
        y.sum().backward()
    _require("forward FLOPs", declared.forward_flops, forward.products, 0.0)
    _require("training FLOPs", declared.training_flops, forward.products + backward.products, 0.0)


def declared_state(subject: LawSubject) -> None:
    """The declared state is what decoding carries after so many tokens."""
    stack = subject.build()
    x, context = _one_row(subject, stack)
    state = stack.initial_state(1, subject.length, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        _, state = stack.step(x, state, context)
    counted = sum(tensor.numel() for tensor in state.tensors() if tensor.is_floating_point())
    _require("state elements", stack.costs(_query(subject, stack)).state_elements, counted, 0.0)


def declared_activations(subject: LawSubject, *, tolerance: float = 0.05) -> None:
    """The declared activations are what autograd stores of one sequence on a CPU."""
    stack = subject.build().train()
    x, context = _one_row(subject, stack)
    with saved_bytes(stack) as saved:
        y = stack(x, context)
    _require("activation bytes", stack.costs(_query(subject, stack)).activation_bytes, saved(), tolerance)
    del y


def _one_row(subject: LawSubject, stack: Stack) -> tuple[Tensor, Context]:
    """Copies, since a view would keep the other rows alive."""
    x, context = subject.inputs(stack)
    memory = context.memory
    own = None if memory is None else memory[:1].clone().requires_grad_()
    return x[:1].clone().requires_grad_(), Context(memory=own)


def _query(subject: LawSubject, stack: Stack) -> CostContext:
    return CostContext(subject.length, subject.memory_length if stack.has_cross else 0)


def _require(what: str, declared: int, counted: int, tolerance: float) -> None:
    if abs(declared - counted) > tolerance * counted:
        raise LawBroken(f"declared {what} must equal what is counted: declared {declared:,}, counted {counted:,}")
