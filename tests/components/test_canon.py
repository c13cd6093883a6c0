"""A canon layer before a feed-forward against its formula, its costs, and the laws in both directions."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from contracts.choices import factory, slow_twin
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.canon import CanonFeedForward, CanonState
from headtohead.components.component import Context, State
from headtohead.components.costs import CostContext
from headtohead.components.feedforwards import DenseState
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.diagnostics.laws import LAWS, Law, LawSubject, applies


def stack(*, causal: bool, slow: bool) -> Stack:
    """Build two blocks whose feed-forwards stand behind a canon layer."""
    mixer = factory("mixer", "softmax_attention")
    counterpart = slow_twin(mixer)
    assert counterpart is not None
    return Stack(
        StackSize(16, 2, 4),
        StackParts(
            mixer=counterpart if slow else mixer,
            position=factory("position", "none"),
            norm=factory("norm", "layer_norm"),
            residual=factory("residual", "pre"),
            feedforward=factory("feedforward", "canon", conv=3),
        ),
        causal=causal,
        max_length=11,
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_blocks_with_canon_layers_obey_every_law(law: Law, causal: bool) -> None:
    if applies(law, causal=causal, dtype=torch.float32, has_slow_twin=True):
        make = partial(stack, causal=causal)
        law(LawSubject(partial(make, slow=False), partial(make, slow=True), torch.float32))


@pytest.mark.parametrize("gated", [True, False])
def test_each_token_is_joined_by_a_weighted_sum_of_itself_and_those_before(gated: bool) -> None:
    layer = CanonFeedForward(6, multiple=2.0, gated=gated, conv=3, bias=True).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    joined = torch.zeros_like(x)
    for token in range(5):
        joined[:, token] = x[:, token]
        for back in range(min(3, token + 1)):
            joined[:, token] += layer.conv.weight[:, 0, 2 - back] * x[:, token - back]
    up = joined @ layer.up.weight.T + layer.up.bias
    hidden = F.silu(up)
    if layer.gate is not None:
        hidden = F.silu(joined @ layer.gate.weight.T + layer.gate.bias) * up
    torch.testing.assert_close(layer(x, Context()), hidden @ layer.down.weight.T + layer.down.bias)


def test_inference_writes_with_prepared_maps_what_the_whole_row_gives() -> None:
    layer = CanonFeedForward(6, conv=3).double()
    x, parts = torch.randn(2, 7, 6, dtype=torch.float64), []
    with torch.inference_mode():
        state: State = layer.initial_state(2, device=x.device, dtype=x.dtype)
        assert isinstance(state, CanonState) and isinstance(state.dense, DenseState)
        for start, end in ((0, 4), (4, 5), (5, 7)):
            y, state = layer.step(x[:, start:end], state, Context())
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, Context()))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_declared_costs_are_counted_costs_dropout_included(dropout: float) -> None:
    layer = CanonFeedForward(8, dropout=dropout, multiple=3.0)
    x = torch.randn(1, 7, 8, requires_grad=True)
    with counting() as counts, saved_bytes(layer) as saved:
        y = layer(x, Context())
    declared = layer.costs(CostContext(7))
    assert (declared.forward_flops, declared.activation_bytes) == (counts.products, saved())
    assert declared.parameters == sum(parameter.numel() for parameter in layer.parameters())
    with counting() as backward:
        y.sum().backward()
    assert declared.training_flops == counts.products + backward.products
