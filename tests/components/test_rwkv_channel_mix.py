"""RWKV-4's feed-forward against its formula, its costs, and what it carries from token to token."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from contracts.choices import factory, slow_twin
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.feedforwards import RwkvChannelMix
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.diagnostics.laws import LAWS, Law, LawSubject, applies


def stack(*, causal: bool, slow: bool) -> Stack:
    """Build two blocks of RWKV-4."""
    mixer = factory("mixer", "rwkv4")
    counterpart = slow_twin(mixer)
    assert counterpart is not None
    return Stack(
        StackSize(16, 2, 4),
        StackParts(
            mixer=counterpart if slow else mixer,
            position=factory("position", "none"),
            norm=factory("norm", "layer_norm"),
            residual=factory("residual", "pre"),
            feedforward=factory("feedforward", "rwkv_channel_mix"),
        ),
        causal=causal,
        max_length=11,
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_blocks_of_rwkv_obey_every_law(law: Law, causal: bool) -> None:
    if applies(law, causal=causal, dtype=torch.float32, has_slow_twin=True):
        make = partial(stack, causal=causal)
        law(LawSubject(partial(make, slow=False), partial(make, slow=True), torch.float32))


def test_layer_is_its_formula() -> None:
    layer = RwkvChannelMix(6, multiple=2.0).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    before = F.pad(x, (0, 0, 1, 0))[:, :-1]
    for_key, for_gate = (mix * x + (1 - mix) * before for mix in (layer.time_mix_key, layer.time_mix_receptance))
    hidden = (for_key @ layer.key.weight.T).clamp(min=0) ** 2
    expected = hidden @ layer.value.weight.T / (1 + torch.exp(-for_gate @ layer.receptance.weight.T))
    torch.testing.assert_close(layer(x, Context()), expected)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_declared_costs_are_counted_costs_dropout_included(dropout: float) -> None:
    layer = RwkvChannelMix(8, dropout=dropout, multiple=3.0)
    x = torch.randn(1, 7, 8, requires_grad=True)
    with counting() as counts, saved_bytes(layer) as saved:
        y = layer(x, Context())
    declared = layer.costs(CostContext(7))
    assert (declared.forward_flops, declared.activation_bytes) == (counts.products, saved())
    with counting() as backward:
        y.sum().backward()
    assert declared.training_flops == counts.products + backward.products
