"""A model cast to bfloat16 errs by the rounding of its products, and by no more than its neighbours."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

from contracts.choices import agree, can_look, factory, kind_of, names
from contracts.test_stack_laws import FOR_IMAGES
from headtohead.components.component import Component, Context
from headtohead.components.mixers.recurrent.s4d import S4d
from headtohead.diagnostics.laws import alone

ALLOWED = 0.02
"""Norm of the error over that of the output; rounding the weights and products of a linear layer takes 0.003."""


def error(mixer: partial, position: partial, length: int) -> float:
    """Return the error of the model as it is drawn in float32."""
    torch.manual_seed(0)
    causal = can_look(mixer, causal=True) and not kind_of(position).needs_grid
    grid = (2, length // 2) if kind_of(position).needs_grid else None
    make = partial(alone(mixer, causal=causal, position=position, d_model=64, max_length=length), grid=grid)
    stack, x = make(), torch.randn(2, length, 64)
    with torch.no_grad():
        exact = stack(x, Context())
        return float((copy.deepcopy(stack).bfloat16()(x.bfloat16(), Context()) - exact).norm() / exact.norm())


@pytest.mark.shapes(False)
@pytest.mark.parametrize("name", names("mixer"))
def test_every_mixer_errs_by_rounding_alone(name: str) -> None:
    assert error(factory("mixer", name), factory("position", "none"), 64) <= ALLOWED


@pytest.mark.parametrize("name", ["softmax_attention", "sliding_window"])
def test_capped_scores_err_by_rounding_alone(name: str) -> None:
    mixer = factory("mixer", name, score_cap=0.5, scale=1.0)
    assert error(mixer, factory("position", "none"), 64) <= ALLOWED


@pytest.mark.shapes(False)
@pytest.mark.parametrize("name", names("position"))
def test_every_position_errs_by_rounding_alone_beyond_what_bfloat16_can_count(name: str) -> None:
    mixer, position = factory("mixer", "softmax_attention"), factory("position", name)
    assert agree(mixer, position) and (name in FOR_IMAGES) == kind_of(position).needs_grid
    assert error(mixer, position, 2 * 257) <= ALLOWED


def test_exponents_and_frequencies_stay_in_float32_and_their_gradients_with_them() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        mixer = S4d(8, num_heads=1, causal=True)
        before = {name: held.detach().clone() for name, held in mixer.named_parameters()}
        mixer(torch.randn(1, 5, 8), Context()).sum().backward()
        mixer.to(dtype)
        for name, held in mixer.named_parameters():
            saved = name in S4d.float32_parameters
            assert held.dtype == (torch.float32 if saved else dtype) == held.grad.dtype
            assert not saved or torch.equal(held, before[name])
    assert {held.dtype for held in mixer.double().parameters()} == {torch.float64}
    assert {held.dtype for held in mixer.to("meta", torch.bfloat16).parameters()} == {torch.float32, torch.bfloat16}


def test_what_stays_in_float32_is_held_by_the_component_itself_and_told_by_its_mixer() -> None:
    for name in names("mixer"):
        kind, needed = factory("mixer", name), {"max_length": 8}
        mixer = kind(16, num_heads=4, causal=False, **(needed if kind_of(kind).needs_length else {}))
        parts = [part for part in mixer.modules() if isinstance(part, Component) and part.float32_parameters]
        assert mixer.keeps_float32 == bool(parts), name
        for part in parts:
            held = dict(part.named_parameters(recurse=False))
            assert all(saved in held or getattr(part, saved) is None for saved in part.float32_parameters)
