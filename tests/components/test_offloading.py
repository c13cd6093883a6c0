"""Activations that are offloaded leave the device until the backward pass, and come back as they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from components.test_stack import stack
from contracts.choices import factory
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from held_bytes import held_bytes
from outside_memory import OutsideMemory, with_outside_memory

OPTIONS: list[dict[str, Any]] = [
    {}, {"cross": True}, {"dropout": 0.3, "drop_path": 0.3}, {"position": "t5_bias"}, {"norm": "batch_norm"},
    {"residual": "post", "position": "alibi"}, {"residual": "hyper_connections"},
]  # fmt: skip


def outputs_and_gradients(options: dict[str, Any], kind: str) -> list[Tensor | None]:
    made = stack(**options)
    made.checkpointing = Checkpointing(kind)  # type: ignore[arg-type]
    x, memory = (torch.ones(2, n, 16).cumsum(1).sin().requires_grad_() for n in (7, 3))
    torch.manual_seed(1)
    y = made(x, Context(memory=memory if options.get("cross") else None))
    y.square().sum().backward()
    return [y, x.grad, memory.grad, *(weight.grad for weight in made.parameters()), *made.buffers()]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_comes_back_is_what_left(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outputs_and_gradients(options, "none")
    outside = with_outside_memory(monkeypatch)
    for before, after in zip(expected, outputs_and_gradients(options, "offload"), strict=True):
        assert (before is None and after is None) or torch.equal(before, after)  # type: ignore[arg-type]
    assert outside.num_bytes > 0, "something left"


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("residual", ["pre", "post", "parallel"])
def test_the_ledger_declares_what_stays_on_the_device(
    cross: bool, residual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_outside_memory(monkeypatch)
    made = stack(cross=cross, residual=residual, position="learned", dropout=0.1, drop_path=0.1)
    made.checkpointing = Checkpointing("offload")
    for module in made.modules():
        if isinstance(module, SoftmaxAttention | SoftmaxCrossAttention):
            module.dropout = 0.0
    memory, positions = 5 if cross else 0, 8 * 9  # the table saves positions, which are not among what is held here
    declared = made.costs(CostContext(9, memory, device="cuda")).activation_bytes
    assert declared == held_bytes(made, 9, memory) + positions


def test_weights_and_what_all_blocks_read_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[Tensor] = []
    outside = OutsideMemory()

    def away(tensor: Tensor) -> Any:
        moved.append(tensor)
        return outside.away(tensor)

    with_outside_memory(monkeypatch, away)
    made = stack(cross=True, position="rotary", mixer=factory("mixer", "disentangled_attention"))
    made.checkpointing = Checkpointing("offload")
    vectors: list[Tensor] = []
    made.shared[0].register_forward_hook(lambda *passed: vectors.append(passed[-1]))
    memory = torch.randn(2, 3, 16, requires_grad=True)
    made(torch.randn(2, 7, 16), Context(memory=memory))
    storages = {tensor.untyped_storage()._cdata for tensor in (memory, *vectors, *made.parameters())}
    assert moved and vectors and not storages & {tensor.untyped_storage()._cdata for tensor in moved}
