"""Our recurrent mixers, stacked and both ways, against nn.RNN, nn.GRU and nn.LSTM: outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from headtohead.components.component import Context
from headtohead.components.feedforwards import NoFeedForward
from headtohead.components.mixers.recurrent.torch_recurrence import Gru, Lstm, Recurrence, TanhRnn
from headtohead.components.mixers.reference import recurrent as slow_gru
from headtohead.components.mixers.reference import recurrent as slow_lstm
from headtohead.components.mixers.reference import recurrent as slow_rnn
from headtohead.components.norms import NoNorm
from headtohead.components.positions.absolute import NoPosition
from headtohead.components.residuals import NoResidual
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from parity.parity import TOLERANCE
from small_models import redraw

WIDTH, LAYERS = 12, 2
KERNELS: list[tuple[type[nn.RNNBase], type[Recurrence], type[Recurrence]]] = [
    (nn.RNN, TanhRnn, slow_rnn.ReferenceTanhRnn),
    (nn.GRU, Gru, slow_gru.ReferenceGru),
    (nn.LSTM, Lstm, slow_lstm.ReferenceLstm),
]


def stack_of(mixer: Callable[..., Recurrence], *, causal: bool, bias: bool) -> Stack:
    return Stack(
        StackSize(WIDTH, (LAYERS if causal else 1), 1),
        StackParts(
            mixer=partial(mixer, bias=bias),
            position=NoPosition,
            norm=NoNorm,
            residual=NoResidual,
            feedforward=NoFeedForward,
        ),
        causal=causal,
        max_length=None,
    )


def ours_to_theirs(stack: Stack) -> dict[str, str]:
    """Names of parameters in the stack, and in a kernel of torch with as many layers and ways."""
    names = {}
    for name, _ in stack.named_parameters():
        layer = name.split(".")[1]
        way = "_reverse" if ".backwards." in name else ""
        names[name] = name.rpartition(".")[2].replace("_l0", f"_l{layer}{way}")
    return names


def largest(ours: Tensor | None, theirs: Tensor | None) -> float:
    assert ours is not None and theirs is not None
    return float((ours.detach() - theirs.detach()).abs().max())


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("both_ways", [False, True], ids=["stacked", "both ways"])
@pytest.mark.parametrize("slow", [False, True], ids=["kernel", "equations"])
@pytest.mark.parametrize(("kernel", "fast", "counterpart"), KERNELS)
def test_a_recurrent_stack_is_torchs_own(
    kernel: type[nn.RNNBase],
    fast: type[Recurrence],
    counterpart: type[Recurrence],
    slow: bool,
    both_ways: bool,
    bias: bool,
    dtype: torch.dtype,
) -> None:
    stack = redraw(stack_of(counterpart if slow else fast, causal=not both_ways, bias=bias).to(dtype))
    assert isinstance(stack, Stack)
    layers = 1 if both_ways else LAYERS
    theirs = kernel(WIDTH, WIDTH, layers, bias=bias, batch_first=True, bidirectional=both_ways).to(dtype)
    names = ours_to_theirs(stack)
    state = stack.state_dict()
    theirs.load_state_dict({there: state[here] for here, there in names.items()})
    x = torch.randn(3, 9, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    own, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = stack(own, Context()), theirs(reference)[0]
    if both_ways:
        expected = expected[..., :WIDTH] + expected[..., WIDTH:]
    weights = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view_as(y).to(dtype)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    limit = TOLERANCE[dtype]
    assert largest(y, expected) < limit
    assert largest(own.grad, reference.grad) < limit
    held, there = dict(stack.named_parameters()), dict(theirs.named_parameters())
    assert len(names) == len(there)
    for name, other in names.items():
        grad = there[other].grad
        assert grad is not None
        assert largest(held[name].grad, grad) < limit * max(1.0, float(grad.abs().max())), name
