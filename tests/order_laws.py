"""Laws on what positions make of the order of tokens, to which tests hold stacks."""

from __future__ import annotations

import torch
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.stack import Stack
from headtohead.diagnostics.laws.law_subject import LawSubject, require_different, require_equal


def permutation(stack: Stack, x: Tensor, context: Context, order: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs for permuted tokens, and permuted outputs."""
    with torch.no_grad():
        return stack(x[:, order], context), stack(x, context)[:, order]


def permutation_equivariance(subject: LawSubject) -> None:
    """A bidirectional stack that knows no positions cannot tell orders apart."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    order = torch.randperm(subject.length, generator=torch.Generator().manual_seed(2))
    actual, expected = permutation(stack, x, context, order)
    limit = 1e-12 if subject.dtype == torch.float64 else None
    require_equal(actual, expected, "without positions, permuted tokens must give permuted outputs", tolerance=limit)


def order_is_seen(subject: LawSubject) -> None:
    """Require that, with positions, permuted tokens give more than permuted outputs."""
    stack = subject.build()
    x, context = subject.inputs(stack)
    order = torch.randperm(subject.length, generator=torch.Generator().manual_seed(2))
    actual, expected = permutation(stack, x, context, order)
    require_different(actual, expected, "with positions, the order of tokens must matter")
