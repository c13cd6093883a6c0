"""A shared expert behind a gate: against transformers' Qwen3-Next, and its costs."""

from __future__ import annotations

import pytest
import torch
from transformers.models.qwen3_next import modeling_qwen3_next

from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixture_of_experts import Routing
from headtohead.components.shared_experts import GatedSharedExpert
from parity.parity import exactly

D, INNER, SHARED, EXPERTS = 8, 12, 20, 5


def made(*, renormalise: bool = True) -> GatedSharedExpert:
    torch.manual_seed(0)
    routing = Routing(num_experts=EXPERTS, experts_per_token=2, renormalise=renormalise)
    return GatedSharedExpert(D, routing=routing, multiple=INNER / D, shared_multiple=SHARED / D)


def qwen(*, renormalise: bool) -> modeling_qwen3_next.Qwen3NextSparseMoeBlock:
    config = modeling_qwen3_next.Qwen3NextConfig(
        hidden_size=D,
        moe_intermediate_size=INNER,
        shared_expert_intermediate_size=SHARED,
        num_experts=EXPERTS,
        num_experts_per_tok=2,
        norm_topk_prob=renormalise,
        experts_implementation="eager",
    )
    return modeling_qwen3_next.Qwen3NextSparseMoeBlock(config)


@pytest.mark.parametrize("renormalise", [True, False])
def test_the_layer_is_that_of_qwen3_next(renormalise: bool) -> None:
    with exactly(torch.float64):
        reference, ours = qwen(renormalise=renormalise).double(), made(renormalise=renormalise).double()
        for tensor in reference.parameters():
            torch.nn.init.normal_(tensor, std=0.3)
        theirs = reference.state_dict()
        gates, ups = theirs["experts.gate_up_proj"].chunk(2, 1)
        state = {"router.weight": theirs["gate.weight"], "shared_gate.weight": theirs["shared_expert_gate.weight"]}
        state |= {f"shared.{a}.weight": theirs[f"shared_expert.{a}_proj.weight"] for a in ("gate", "up", "down")}
        for expert in range(EXPERTS):
            parts = {"gate": gates, "up": ups, "down": theirs["experts.down_proj"]}
            state |= {f"experts.{expert}.{name}.weight": part[expert] for name, part in parts.items()}
        ours.load_state_dict(state)
        x = torch.randn(2, 7, D)
        mine, other = (x.clone().requires_grad_() for _ in range(2))
        y, expected = ours(mine, Context()), reference(other)
        (y * x).sum().backward()
        (expected * x).sum().backward()
    assert (y - expected).abs().max() <= 1e-10
    assert mine.grad is not None and (mine.grad - other.grad).abs().max() <= 1e-10
    for name, wished in {"router": "gate", "shared_gate": "shared_expert_gate"}.items():
        gradient = ours.get_parameter(f"{name}.weight").grad
        assert gradient is not None
        assert (gradient - reference.get_parameter(f"{wished}.weight").grad).abs().max() <= 1e-10


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
