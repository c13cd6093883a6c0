"""Experts with clamped gates: against transformers' gpt-oss, and their costs."""

from __future__ import annotations

import torch
from transformers.models.gpt_oss import modeling_gpt_oss

from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.clamped_experts import ClampedExperts
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixture_of_experts import Routing
from parity.parity import exactly

D, INNER, EXPERTS = 8, 12, 5


def made(limit: float = 0.4) -> ClampedExperts:
    torch.manual_seed(0)
    routing = Routing(num_experts=EXPERTS, experts_per_token=2)
    return ClampedExperts(D, routing=routing, multiple=INNER / D, limit=limit, sharpness=1.3)


def test_the_layer_is_that_of_gpt_oss_where_gates_are_clamped_and_where_they_are_not() -> None:
    config = modeling_gpt_oss.GptOssConfig(
        hidden_size=D, intermediate_size=INNER, num_local_experts=EXPERTS, num_experts_per_tok=2, swiglu_limit=0.4,
        swiglu_alpha=1.3, experts_implementation="eager",
    )  # fmt: skip
    with exactly(torch.float64):
        reference, ours = modeling_gpt_oss.GptOssMLP(config).double(), made().double()
        for tensor in reference.parameters():
            torch.nn.init.normal_(tensor, std=0.5)
        theirs = reference.state_dict()
        state = {f"router.{kind}": theirs[f"router.{kind}"] for kind in ("weight", "bias")}
        for expert in range(EXPERTS):
            for kind, suffix in (("weight", ""), ("bias", "_bias")):
                both, down = (theirs[f"experts.{name}_proj{suffix}"][expert].t() for name in ("gate_up", "down"))
                own = {"gate": both[::2], "up": both[1::2], "down": down}
                state |= {f"experts.{expert}.{name}.{kind}": part for name, part in own.items()}
        ours.load_state_dict(state)
        x = torch.randn(2, 7, D)
        mine, other = (x.clone().requires_grad_() for _ in range(2))
        y, expected = ours(mine, Context()), reference(other)[0]
        (y * x).sum().backward()
        (expected * x).sum().backward()
    assert (y - expected).abs().max() <= 1e-10
    assert mine.grad is not None and (mine.grad - other.grad).abs().max() <= 1e-10
    for kind in ("weight", "bias"):
        gradient, wished = (layer.get_parameter(f"router.{kind}").grad for layer in (ours, reference))
        assert gradient is not None and (gradient - wished).abs().max() <= 1e-10


def test_declared_costs_are_counted_costs() -> None:
    layer, x = made(), torch.randn(1, 11, D, requires_grad=True)
    with counting() as forward, saved_bytes(layer) as saved:
        y = layer(x, Context())
    declared = layer.costs(CostContext(11))
    assert declared.forward_flops == forward.products
    assert abs(declared.activation_bytes / saved() - 1) < 0.05
    with counting() as backward:
        y.sum().backward()
    assert declared.training_flops == forward.products + backward.products
    assert declared.parameters == sum(p.numel() for p in layer.parameters())
    one = sum(p.numel() for p in layer.experts[0].parameters())
    assert declared.active_parameters == declared.parameters - (EXPERTS - 2) * one
