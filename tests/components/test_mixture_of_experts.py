"""A mixture of experts against a loop over tokens, its capacity, its losses and its costs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import headtohead as h2h
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.clamped_experts import ClampedExperts
from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixture_of_experts import MixtureOfExperts, Routing
from headtohead.components.shared_experts import BiasedRouting, GatedSharedExpert, SharedExperts


def token_by_token(layer: MixtureOfExperts, x: Tensor) -> Tensor:
    """The definition: every token asks its best experts, one after the other."""
    y = torch.zeros_like(x)
    for row in range(len(x)):
        for index in range(x.shape[1]):
            token = x[row, index]
            probabilities = torch.softmax(layer.router.weight @ token, 0)
            best = probabilities.topk(layer.experts_per_token).indices.tolist()
            total = sum(probabilities[e] for e in best) if layer.routing.renormalise else 1.0
            for expert in best:
                message = layer.experts[expert](token[None, None], Context())[0, 0]
                y[row, index] += probabilities[expert] / total * message
    return y


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("num_experts", "experts_per_token"), [(1, 1), (4, 2), (5, 3)])
def test_tokens_sorted_by_expert_give_what_the_loop_gives(
    num_experts: int, experts_per_token: int, gated: bool, renormalise: bool
) -> None:
    torch.manual_seed(0)
    layer = MixtureOfExperts(
        6,
        routing=Routing(num_experts=num_experts, experts_per_token=experts_per_token, renormalise=renormalise),
        gated=gated,
    ).double()
    x = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    result, expected = layer(x, Context()), token_by_token(layer, x)
    torch.testing.assert_close(result, expected)
    parameters = (x, *layer.parameters())
    for one, other in zip(
        torch.autograd.grad(result.square().sum(), parameters),
        torch.autograd.grad(expected.square().sum(), parameters, materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_capacity_drops_the_latest_tokens_in_training_and_none_in_evaluation() -> None:
    torch.manual_seed(0)
    layer = MixtureOfExperts(
        4, routing=Routing(num_experts=2, experts_per_token=1, renormalise=False, capacity=1.0), bias=False
    ).double()
    with torch.no_grad():
        layer.router.weight.zero_()
        layer.router.weight[0, 0] = 100.0  # whoever has a positive first number goes to expert 0
    x = torch.randn(1, 8, 4, dtype=torch.float64)
    x[..., 0] = x[..., 0].abs() + 0.1
    y = layer(x, Context())
    assert (y[0, :4] != 0).any(-1).all() and (y[0, 4:] == 0).all()
    figures = layer.take_figures()
    assert figures == {"load_0": 1.0, "load_1": 0.0, "dropped": 0.5}
    assert (layer.eval()(x, Context()) != 0).any(-1).all()


def test_padding_takes_no_room_and_has_no_load() -> None:
    torch.manual_seed(0)
    layer = MixtureOfExperts(
        4, routing=Routing(num_experts=2, experts_per_token=1, renormalise=False, capacity=1.0)
    ).double()
    x = torch.randn(1, 8, 4, dtype=torch.float64)
    valid = torch.arange(8)[None] < 4
    alone = layer(x[:, :4], Context())
    loss, figures = layer.take_loss(), layer.take_figures()
    noise = torch.where(valid[..., None], x, 9.0)
    torch.testing.assert_close(layer(noise, Context(valid=valid))[:, :4], alone)
    assert layer.take_figures() == figures
    torch.testing.assert_close(layer.take_loss(), loss)


def test_losses_are_their_formulas_and_handed_out_once() -> None:
    torch.manual_seed(0)
    layer = MixtureOfExperts(
        4, routing=Routing(num_experts=3, experts_per_token=2, balance_weight=0.5, z_weight=0.25)
    ).double()
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    layer(x, Context())
    scores = x.flatten(0, 1) @ layer.router.weight.T
    chosen = scores.topk(2).indices
    shares = torch.stack([(chosen == e).double().mean() for e in range(3)])
    balance = 3 * (shares * scores.softmax(-1).mean(0)).sum()
    loss = layer.take_loss()
    torch.testing.assert_close(loss, 0.5 * balance + 0.25 * scores.logsumexp(-1).square().mean())
    assert layer.take_loss() is None
    layer.eval()(x, Context())
    assert layer.take_loss() is None


def test_equal_scores_give_the_smallest_balance_loss() -> None:
    layer = MixtureOfExperts(
        4, routing=Routing(num_experts=4, experts_per_token=1, renormalise=False, balance_weight=1.0, z_weight=0.0)
    ).double()
    with torch.no_grad():
        layer.router.weight.zero_()
    layer(torch.randn(1, 8, 4, dtype=torch.float64), Context())
    loss = layer.take_loss()
    assert loss is not None and math.isclose(loss.item(), 1.0, rel_tol=1e-6)


@pytest.mark.parametrize("gated", [True, False])
def test_declared_costs_are_counted_costs(gated: bool) -> None:
    layer = MixtureOfExperts(16, routing=Routing(num_experts=4, experts_per_token=2), gated=gated)
    x = torch.randn(1, 11, 16, requires_grad=True)
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
    assert declared.active_parameters == declared.parameters - 2 * one


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("experts_per_token", [1, 2])
def test_the_task_teaches_every_router_that_a_run_may_have(experts_per_token: int, renormalise: bool) -> None:
    torch.manual_seed(0)
    routing = Routing(num_experts=4, experts_per_token=experts_per_token, renormalise=renormalise)
    biased = BiasedRouting(num_experts=4, experts_per_token=experts_per_token, renormalise=renormalise)
    for name, layer in (
        ("moe", MixtureOfExperts(8, routing=routing)),
        ("moe_shared", SharedExperts(8, routing=biased)),
        ("moe_gated_shared", GatedSharedExpert(8, routing=routing)),
        ("moe_clamped", ClampedExperts(8, routing=routing)),
    ):
        layer(torch.randn(2, 16, 8), Context()).square().sum().backward()
        assert layer.router.weight.grad is not None
        taught = bool((layer.router.weight.grad.abs().sum(1) > 1e-2).all())  # rounding gives 4e-6, the task 0.3
        own = {"experts_per_token": experts_per_token, "renormalise": str(renormalise).lower()}
        words = [f"model/feedforward={name}", *(f"model.feedforward.{key}={value}" for key, value in own.items())]
        if taught:
            h2h.compose("train", words)
        else:
            with pytest.raises(
                ValueError, match=r"teaches the router nothing: set model.feedforward.renormalise=false"
            ):
                h2h.compose("train", words)
    assert taught == (not (experts_per_token == 1 and renormalise))


def test_more_experts_per_token_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="experts_per_token=3 must be between 1 and num_experts=2"):
        MixtureOfExperts(4, routing=Routing(num_experts=2, experts_per_token=3))


def test_experts_without_room_are_refused() -> None:
    with pytest.raises(ValueError, match=r"capacity=-1\.0 leaves experts no room"):
        MixtureOfExperts(4, routing=Routing(capacity=-1.0))


class Beside:
    """One of several devices, told what the others count."""

    def __init__(self, rank: int, counts: list[Tensor]) -> None:
        self.rank, self.counts = rank, counts

    def gathered(self, counts: Tensor) -> Tensor:
        assert torch.equal(counts, self.counts[self.rank])
        return torch.stack(self.counts)


@pytest.mark.parametrize("capacity", [None, 0.8])
def test_devices_that_share_a_batch_give_what_one_gives(capacity: float | None) -> None:
    torch.manual_seed(0)
    layer = MixtureOfExperts(6, routing=Routing(num_experts=3, experts_per_token=2, capacity=capacity)).double()
    x, valid = torch.randn(5, 7, 6, dtype=torch.float64), torch.rand(5, 7) < 0.8
    whole, whole_loss, figures = layer(x, Context(valid=valid)), layer.take_loss(), layer.take_figures()
    shares = [(part, saved) for part, saved in zip(x.split([2, 3]), valid.split([2, 3]), strict=True)]
    counts = []
    for part, saved in shares:
        experts = layer.route(part.flatten(0, 1)).experts.T
        counts.append((torch.nn.functional.one_hot(experts, 3) * saved.flatten()[:, None]).sum(1))
    result, losses = [], []
    for rank, (part, saved) in enumerate(shares):
        layer.devices = Beside(rank, counts)
        result.append(layer(part, Context(valid=saved)))
        losses.append(layer.take_loss())
        assert layer.take_figures() == pytest.approx(figures), "loads are those of the whole batch"
    torch.testing.assert_close(torch.cat(result)[valid], whole[valid])
    torch.testing.assert_close(sum(losses), whole_loss)


def test_a_part_balanced_by_itself_asks_no_other_device() -> None:
    layer = MixtureOfExperts(6, routing=Routing(num_experts=3, balance="micro_batch"))
    layer.devices = Beside(0, [])
    layer(torch.randn(2, 5, 6), Context())
    assert layer.take_loss() is not None
