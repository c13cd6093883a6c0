"""Shared experts and biased routing: against transformers' DeepSeek-V3, their balance, and their costs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.models.deepseek_v3 import modeling_deepseek_v3

from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.shared_experts import BiasedRouting, SharedExperts
from headtohead.errors import UsageError
from parity.parity import exactly

D, INNER, EXPERTS = 8, 12, 5


def made(**options: object) -> SharedExperts:
    torch.manual_seed(0)
    chosen = {"num_experts": EXPERTS, "experts_per_token": 2, **options}
    routing = BiasedRouting(**chosen)  # type: ignore[arg-type]
    return SharedExperts(D, routing=routing, multiple=INNER / D)


def deepseek() -> modeling_deepseek_v3.DeepseekV3MoE:
    config = modeling_deepseek_v3.DeepseekV3Config(
        hidden_size=D,
        moe_intermediate_size=INNER,
        n_routed_experts=EXPERTS,
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        n_shared_experts=2,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
        experts_implementation="eager",
    )
    return modeling_deepseek_v3.DeepseekV3MoE(config)


def test_shared_experts_are_those_of_deepseek_v3() -> None:
    with exactly(torch.float64):
        reference = deepseek().double()
        for tensor in (*reference.parameters(), reference.gate.e_score_correction_bias):
            torch.nn.init.normal_(tensor, std=0.3)
        ours = made(num_shared=2, scale=2.5).double()
        theirs = reference.state_dict()
        gates, ups = theirs["experts.gate_up_proj"].chunk(2, 1)
        state = {"router.weight": theirs["gate.weight"], "choice_bias": theirs["gate.e_score_correction_bias"]}
        state |= {f"shared.{a}.weight": theirs[f"shared_experts.{a}_proj.weight"] for a in ("gate", "up", "down")}
        for expert in range(EXPERTS):
            parts = {"gate": gates, "up": ups, "down": theirs["experts.down_proj"]}
            state |= {f"experts.{expert}.{name}.weight": part[expert] for name, part in parts.items()}
        ours.load_state_dict({**state, "loads_of_step": torch.zeros(EXPERTS, dtype=torch.long)})
        x = torch.randn(2, 7, D)
        mine, other = (x.clone().requires_grad_() for _ in range(2))
        y, expected = ours(mine, Context()), reference(other)
        (y * x).sum().backward()
        (expected * x).sum().backward()
    assert (y - expected).abs().max() <= 1e-10
    assert mine.grad is not None and (mine.grad - other.grad).abs().max() <= 1e-10
    router = reference.gate.weight.grad
    assert ours.router.weight.grad is not None and (ours.router.weight.grad - router).abs().max() <= 1e-10


def largest_load(layer: SharedExperts, x: Tensor) -> float:
    layer(x, Context())
    loss = layer.take_loss()
    assert loss is not None and loss.item() == 0.0
    return max(layer.take_figures().values())


@pytest.mark.slow
def test_biases_even_out_the_loads_without_a_loss_and_leave_the_weights_alone() -> None:
    layer, x = made(bias_rate=0.02).train(), torch.randn(4, 64, D) + 1.0
    before, generator = largest_load(layer, x), torch.Generator()
    for step in range(60):
        layer.begin_step(step, generator)
        after = largest_load(layer, x)
    assert before > 0.35 and after < 0.25, "an equal share is 0.2"
    assert layer.loads_of_step.sum() == 2 * 4 * 64
    biases = layer.choice_bias.clone()
    layer.eval()(x, Context())
    layer.begin_step(61, generator)
    layer.begin_step(62, generator)
    assert (layer.choice_bias - biases).abs().max() <= 0.021, "a step without a pass in training moves nothing"


def slowly_chosen(layer: SharedExperts, token: Tensor) -> list[int]:
    """The definition: the experts of the groups whose two best have the largest sum."""
    liked = (torch.sigmoid(layer.router.weight @ token) + layer.choice_bias).tolist()
    size = len(liked) // layer.num_groups
    groups = [list(range(first, first + size)) for first in range(0, len(liked), size)]
    groups.sort(key=lambda group: -sum(sorted((liked[expert] for expert in group), reverse=True)[:2]))
    open_to_it = [expert for group in groups[: layer.groups_per_token] for expert in group]
    return sorted(sorted(open_to_it, key=lambda expert: -liked[expert])[: layer.experts_per_token])


@pytest.mark.parametrize(("num_groups", "groups_per_token"), [(1, 1), (2, 1), (3, 2), (6, 2)])
def test_a_token_meets_the_best_experts_of_its_best_groups(num_groups: int, groups_per_token: int) -> None:
    layer = made(num_experts=12, num_groups=num_groups, groups_per_token=groups_per_token).double()
    torch.nn.init.normal_(layer.choice_bias, std=0.3)
    tokens = torch.randn(40, D, dtype=torch.float64)
    routes = layer.route(tokens)
    assert routes.experts.sort(-1).values.tolist() == [slowly_chosen(layer, token) for token in tokens]
    shares = torch.sigmoid(tokens @ layer.router.weight.T).gather(-1, routes.experts)
    torch.testing.assert_close(routes.weights, shares / shares.sum(-1, keepdim=True))
    free = made(num_experts=12).double()
    free.load_state_dict(layer.state_dict())
    alike = (free.route(tokens).experts.sort(-1).values == routes.experts.sort(-1).values).all(-1)
    assert bool(alike.all()) == (num_groups == 1), "groups that change no choice show nothing"


def test_all_groups_for_every_token_are_no_groups() -> None:
    layer, free = made(num_experts=6, num_groups=3, groups_per_token=3), made(num_experts=6)
    x = torch.randn(2, 5, D)
    assert torch.equal(layer(x, Context()), free(x, Context()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_experts": 6, "num_groups": 4}, "num_groups=4 must divide num_experts=6"),
        ({"num_experts": 6, "num_groups": 3, "groups_per_token": 4}, "groups_per_token=4 must be between 1 and num_gr"),
        ({"num_experts": 6, "num_groups": 3, "groups_per_token": 0}, "groups_per_token=0 must be between 1 and num_gr"),
        ({"num_experts": 6, "num_groups": 6}, "num_groups=6 of num_experts=6 hold one expert each"),
        ({"num_experts": 6, "num_groups": 3, "experts_per_token": 3}, "experts_per_token=3 is more than groups_per_to"),
    ],
)
def test_groups_that_cannot_be_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made(**options)


@pytest.mark.parametrize("options", [{"num_shared": 0}, {"num_shared": 2}, {"num_experts": 6, "num_groups": 3}])
def test_declared_costs_are_counted_costs(options: dict[str, int]) -> None:
    layer, x = made(**options), torch.randn(1, 11, D, requires_grad=True)
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
    assert declared.active_parameters == declared.parameters - (layer.num_experts - 2) * one


def test_biases_stay_in_float32_where_a_model_has_16_bits() -> None:
    assert made().to(torch.bfloat16).choice_bias.dtype == torch.float32
