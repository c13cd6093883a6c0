"""An optimizer holds as much after a step as plans say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import headtohead as h2h
from headtohead.config.compose.choices import choices
from headtohead.config.instantiate import make
from headtohead.training.memory import basis_numbers, optimizer_state_size
from small_models import small_model

CASES = [
    *([f"optimizer={choice.name}"] for choice in choices("optimizer")),
    ["optimizer=sgd", "optimizer.momentum=0"],
    ["optimizer=soap", "optimizer.max_basis=20"],
]


@pytest.mark.parametrize("overrides", CASES, ids=" ".join)
def test_an_optimizer_keeps_as_many_numbers_of_a_weight_as_is_said(overrides: list[str]) -> None:
    node = h2h.compose("train", ["data=grammar_lm", "schedule=constant", *overrides])["optimizer"]
    model = small_model("decoder_only")
    optimizer = make(node)(model)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    optimizer.step()
    declared = optimizer_state_size(node)
    for parameter in model.parameters():
        states = [value for value in optimizer.state[parameter].values() if isinstance(value, Tensor)]
        numbers = sum(state.numel() for state in states if state.ndim) - basis_numbers(node, parameter.shape)
        counted = numbers / parameter.numel()
        assert declared.least <= counted <= declared.most
