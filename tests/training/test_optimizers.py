"""The right parameters decay, and options reach the optimizer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from headtohead.components.mixers.attention.disentangled_attention import DisentangledAttention
from headtohead.components.positions.absolute import Learned
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.errors import UsageError
from headtohead.training.optim.optimizers import adam, adamw, checked_optimizer, parameter_groups, sgd
from small_models import small_model


def names_of_group(model: nn.Module, group: dict) -> set[str]:
    ids = {id(parameter) for parameter in group["params"]}
    return {name for name, parameter in model.named_parameters() if id(parameter) in ids}


def test_biases_norms_and_position_tables_never_decay() -> None:
    model = small_model("decoder_only", position=Learned)
    decayed, undecayed = (names_of_group(model, group) for group in parameter_groups(model, weight_decay=0.1))
    assert all(name.endswith("weight") for name in decayed)
    assert any("mixer" in name for name in decayed) and any("feedforward" in name for name in decayed)
    assert not any("norm" in name or "position" in name for name in decayed)
    assert any("norm" in name for name in undecayed) and any("position" in name for name in undecayed)


def test_a_table_of_distances_is_a_position_table() -> None:
    model = small_model("encoder_only", mixer=DisentangledAttention)
    assert "stack.shared.0.table" in names_of_group(model, parameter_groups(model, weight_decay=0.1)[1])


def test_embeddings_decay_only_on_request() -> None:
    model = small_model("decoder_only")
    for expected in (True, False):
        decayed = names_of_group(model, parameter_groups(model, weight_decay=0.1, decay_embeddings=expected)[0])
        assert ("embedding.weight" in decayed) is expected


def test_every_trained_parameter_is_in_one_group_and_a_frozen_one_in_none() -> None:
    model = small_model("encoder_decoder")
    frozen = next(model.parameters())
    frozen.requires_grad_(False)
    grouped = [parameter for group in parameter_groups(model, weight_decay=0.1) for parameter in group["params"]]
    assert len(grouped) == len({id(parameter) for parameter in grouped})
    assert {id(parameter) for parameter in grouped} == {id(p) for p in model.parameters() if p is not frozen}


def test_weight_decay_shrinks_matrices_alone() -> None:
    model = nn.Linear(3, 3)
    with torch.no_grad():
        model.bias.fill_(1.0)
    before = model.weight.detach().clone()
    optimizer = adamw(model, lr=0.1, weight_decay=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), before * (1 - 0.1 * 0.5))
    assert torch.equal(model.bias.detach(), torch.ones(3))


@pytest.mark.parametrize("make", [adamw, adam, partial(sgd, momentum=0.9)])
def test_fused_and_plain_kernels_take_the_same_steps(make: partial) -> None:
    ends = []
    for fused in (True, False):
        torch.manual_seed(0)
        model = nn.Linear(5, 4)
        optimizer = make(model, lr=0.05, weight_decay=0.1, fused=fused)
        for step in range(5):
            model(torch.full((2, 5), 1.0 + step)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        ends.append(model.weight.detach())
    torch.testing.assert_close(*ends)


def test_the_fused_kernel_is_taken_where_there_is_one() -> None:
    assert adamw(nn.Linear(2, 2)).defaults["fused"] is True
    assert adamw(nn.Linear(2, 2, device="meta")).defaults["fused"] is False


def test_betas_may_be_a_list_as_yaml_gives_it() -> None:
    assert adamw(nn.Linear(2, 2), betas=[0.8, 0.9]).param_groups[0]["betas"] == (0.8, 0.9)  # type: ignore[arg-type]


class WithoutRate(Optimizer):
    """Takes steps of a length of its own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Nothing to do."""


def own(model: nn.Module, *, kind: str) -> Optimizer:
    """One of torch's optimizers, as somebody names it in a file of their own."""
    made: Optimizer = getattr(torch.optim, kind)(model.parameters())
    return made


def list_of_weights(model: nn.Module) -> list[nn.Parameter]:
    return list(model.parameters())


def no_schedule(total_steps: int) -> float:
    return 1 / total_steps


def composed_with(group: str, target: str, **fields: Any) -> dict[str, Any]:
    small = ["data.num_train=8", "data.num_validation=2", "data.num_test=2", "data.tokenizer=char", "model.d_model=16"]
    node = {"_target_": f"training.test_optimizers.{target}", "_partial_": True, **fields}
    return {**compose_checked("train", [*small, "data.batch_size=2", "trainer=cpu"]), group: node}


@pytest.mark.parametrize(
    ("group", "target", "fields", "message"),
    [
        ("optimizer", "WithoutRate", {}, "WithoutRate has groups of parameters without lr.*give it"),
        ("optimizer", "own", {"kind": "LBFGS"}, r"LBFGS\.step needs a closure.*choose one that steps from gradients"),
        ("optimizer", "list_of_weights", {}, "list is not a torch.optim.Optimizer: return one"),
        ("schedule", "no_schedule", {}, "0.001 was returned for the 1000 steps of the run: return a function"),
    ],
)
def test_what_no_step_can_follow_is_refused_before_there_is_a_run(
    group: str, target: str, fields: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=message):
        build_parts(composed_with(group, target, **fields))


OF_TORCH = sorted(name for name, kind in vars(torch.optim).items() if isinstance(kind, type) and name != "Optimizer")


@pytest.mark.parametrize("kind", [name for name in OF_TORCH if name != "SparseAdam"])
def test_each_of_torchs_optimizers_takes_a_step_or_is_refused(kind: str) -> None:
    """But one, which is for gradients that our models never have."""
    model = nn.Linear(3, 3, bias=False)
    try:
        optimizer = checked_optimizer(own(model, kind=kind))
    except UsageError:
        assert kind == "LBFGS"
        return
    before = model.weight.detach().clone()
    model.weight.grad = torch.ones(3, 3)
    optimizer.step()
    assert (model.weight != before).any()
