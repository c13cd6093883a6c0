"""Rotary positions with mixers that weigh values by products of features: every law holds for the pair (Su et al. 2021,
https://arxiv.org/abs/2104.09864, section 3.3)."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from contracts.choices import can_look, factory, kind_of, names, slow_twin
from headtohead.components.component import Context
from headtohead.components.mixers.linear.kernel_attention import KernelAttention
from headtohead.components.mixers.linear.linear_attention import Performer
from headtohead.components.positions.rotary import Rotary
from headtohead.components.sequence_ops.score_masks import with_score_masks
from headtohead.diagnostics.laws import LAWS, Law, LawSubject, alone, applies
from headtohead.diagnostics.laws.attention_laws import explicit_attention

MIXERS = ("linear_attention", "performer", "based")
OPTIONS = [{}, {"pairing": "interleaved", "fraction": 0.5}, {"encoding": "xpos", "decay_length": 8.0}]
CASES = [
    (law, mixer, causal, dtype)
    for law, mixer, causal, dtype in product(LAWS, MIXERS, (True, False), (torch.float64, torch.float32))
    if applies(law, causal=causal, dtype=dtype, has_slow_twin=True)
    and not (dtype == torch.float32 and applies(law, causal=causal, dtype=torch.float64, has_slow_twin=True))
]
"""Single precision for the laws about it alone."""
ROTATED = [name for name in names("mixer") if kind_of(factory("mixer", name)).reads_rotation and name != "performer"]
"""The mixers whose scores are products of rotated queries and keys; a performer estimates them."""


def subject(
    name: str, causal: bool, dtype: torch.dtype = torch.float64, *, encoding: str = "rotary", **options: object
) -> LawSubject:
    mixer, position = factory("mixer", name, chunk_size=4), factory("position", encoding, **options)
    counterpart = slow_twin(mixer)
    assert counterpart is not None
    make = (alone(one, causal=causal, position=position) for one in (mixer, counterpart))
    return LawSubject(next(make), next(make), dtype)


@pytest.mark.parametrize(("law", "name", "causal", "dtype"), CASES)
def test_rotated_mixer_obeys(law: Law, name: str, causal: bool, dtype: torch.dtype) -> None:
    law(subject(name, causal, dtype))


@pytest.mark.parametrize(("law", "name", "causal", "dtype"), CASES)
def test_mixer_whose_keys_turn_otherwise_than_queries_obeys(
    law: Law, name: str, causal: bool, dtype: torch.dtype
) -> None:
    law(subject(name, causal, dtype, encoding="xpos", decay_length=32.0))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ROTATED)
def test_every_mixer_rotates_its_keys_as_keys(name: str, causal: bool) -> None:
    """Else a score would change with the positions of a query and a key, and not with their distance alone."""
    mixer, position = factory("mixer", name), factory("position", "xpos", decay_length=8.0)
    if not can_look(mixer, causal=causal):
        return
    torch.manual_seed(0)
    stack = alone(mixer, causal=causal, position=position)().double().eval()
    x, here = torch.randn(2, 7, 16, dtype=torch.float64), torch.arange(7)[None]
    near, far = (stack(x, Context(positions=here + shift)) for shift in (0, 30))
    torch.testing.assert_close(near, far, rtol=0, atol=1e-9)
    with torch.inference_mode():
        state = stack.initial_state(2, 7, device=x.device, dtype=x.dtype) if causal else None
        steps = [] if state is None else [stack.step(x[:, at : at + 1], state, Context())[0] for at in range(7)]
    assert not steps or torch.allclose(torch.cat(steps, 1), near, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "causal", "options"), list(product(MIXERS, (True, False), OPTIONS)))
def test_rotated_features_give_what_the_attention_shows(name: str, causal: bool, options: dict) -> None:
    explicit_attention(subject(name, causal, **options))


def rotated(mixer: KernelAttention, positions: Tensor) -> Context:
    position = Rotary(mixer.d_model, num_heads=mixer.num_heads, max_length=None, causal=mixer.causal)
    return with_score_masks(
        Context(positions=positions, encoding=position), torch.zeros(1, positions.shape[1], 1).double(), causal=True
    )


@pytest.mark.parametrize("causal", [True, False])
def test_rotated_linear_attention_knows_distances_and_no_positions(causal: bool) -> None:
    torch.manual_seed(0)
    mixer = factory("mixer", "linear_attention")(16, num_heads=2, causal=causal).double()
    x, indices = torch.randn(1, 9, 16, dtype=torch.float64), torch.arange(9)[None]
    y, moved, apart = (mixer(x, rotated(mixer, positions)) for positions in (indices, indices + 5, 2 * indices))
    assert torch.allclose(y, moved, atol=1e-10)
    assert not torch.allclose(y, apart, atol=1e-4)
    assert not torch.allclose(y, mixer(x, Context()), atol=1e-4)


def test_rotated_performer_estimates_softmax_attention_of_rotated_queries_and_keys() -> None:
    """The estimate is right on average, as without positions: the error falls as the number of features grows."""
    x = 0.7 * torch.randn(1, 20, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    softmax = factory("mixer", "softmax_attention", bias=False)(8, num_heads=1, causal=True).double()
    errors = []
    for num_features in (16, 16384):
        torch.manual_seed(0)
        mixer = Performer(8, num_heads=1, causal=True, bias=False, num_features=num_features).double()
        for part in (mixer.query, mixer.key, softmax.query, softmax.key):
            part.weight.data = torch.eye(8, dtype=torch.float64)
        context = rotated(mixer, torch.arange(20)[None])
        with torch.no_grad():
            own, exact, plain = (
                mixer.attention(x, context),
                softmax.attention(x, context),
                softmax.attention(x, Context()),
            )
        errors.append(float((own - exact).square().mean().sqrt()))
    assert errors[1] < 0.3 * errors[0]
    assert errors[1] < 0.5 * float((exact - plain).square().mean().sqrt())
