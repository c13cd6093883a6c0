"""Memory that nothing was written to reaches no result: where a new tensor is NaN, all is as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from contracts.choices import can_look, factory, names
from headtohead.components.component import Context
from headtohead.diagnostics.laws import alone
from headtohead.tasks.chunked_cross_entropy import Workspace, cross_entropy_sum, score

pytestmark = pytest.mark.shapes(False)


@contextmanager
def nan_in_new_tensors() -> Iterator[None]:
    """Let `torch.empty` and what calls it return NaN, as torch does on request where it is to be deterministic."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation")
@pytest.mark.parametrize("length", [3, 70])
@pytest.mark.parametrize("name", names("mixer"))
def test_no_mixer_reads_memory_that_it_has_not_written(name: str, length: int) -> None:
    mixer = factory("mixer", name)
    causal = can_look(mixer, causal=True)

    def outputs() -> list[Tensor]:
        torch.manual_seed(0)
        stack, x = (
            alone(mixer, causal=causal, max_length=length)().train(),
            torch.randn(2, length, 16, requires_grad=True),
        )
        y = stack(x, Context())
        return [y, *torch.autograd.grad(y.square().sum(), [x, *stack.parameters()], allow_unused=True)]

    usual = outputs()
    with nan_in_new_tensors():
        filled = outputs()
    for one, other in zip(usual, filled, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("vocab", [34, 64])
@pytest.mark.parametrize("autocast", [False, True])
def test_no_loss_of_a_vocabulary_reads_memory_that_it_has_not_written(vocab: int, autocast: bool) -> None:
    torch.manual_seed(0)
    features, weight = torch.randn(32, 8, requires_grad=True), torch.randn(vocab, 8, requires_grad=True)
    targets = torch.randint(0, vocab, (32,))
    with nan_in_new_tensors(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        workspace = Workspace(chunk_elements=7 * vocab)
        loss = cross_entropy_sum(features, weight, None, targets, workspace=workspace)
        results = [loss, *torch.autograd.grad(loss, [features, weight])]
        results.append(score(features, weight, None, targets, workspace=workspace).losses)
    assert all(result.isfinite().all() for result in results)
