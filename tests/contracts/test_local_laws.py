"""Every law over mixers that something local precedes, in both directions."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
import torch
from torch import nn

from contracts.choices import factory, kind_of, names, slow_twin
from headtohead.components.component import Context
from headtohead.components.norms import NoNorm
from headtohead.components.positions.absolute import NoPosition
from headtohead.components.positions.rotary import Rotary
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.diagnostics.laws import LAWS, LawSubject, applies
from headtohead.diagnostics.laws.law_subject import BareResidual, PassThrough

LOCALS = [name for name in names("local") if name != "none"]


def with_local(local: partial, mixer: partial, *, causal: bool) -> Stack:
    return Stack(
        StackSize(16, 1, 4),
        StackParts(
            mixer=mixer,
            local=local,
            position=Rotary if kind_of(mixer).reads_scores else NoPosition,
            norm=NoNorm,
            residual=BareResidual,
            feedforward=PassThrough,
        ),
        causal=causal,
        max_length=64,
    )


def subject(local: str, mixer: str, *, causal: bool, dtype: torch.dtype) -> LawSubject:
    made = [factory("local", local), factory("mixer", mixer)]
    duplicates = [slow_twin(part) for part in made]
    fast, slow = (partial(with_local, *parts, causal=causal) for parts in (made, duplicates))
    return LawSubject(fast, slow, dtype)


@pytest.mark.slow
@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
@pytest.mark.parametrize(("local", "mixer"), list(product(LOCALS, ["softmax_attention", "gru", "short_conv"])))
def test_a_mixer_after_something_local_obeys_every_law(
    local: str, mixer: str, causal: bool, dtype: torch.dtype
) -> None:
    examined = subject(local, mixer, causal=causal, dtype=dtype)
    for law in LAWS:
        if applies(law, causal=causal, dtype=dtype, has_slow_twin=True):
            law(examined)


@pytest.mark.parametrize("causal", [True, False])
def test_a_short_convolution_before_a_mixer_starts_near_the_identity(causal: bool) -> None:
    torch.manual_seed(0)
    convolution = factory("local", "short_conv")(64, num_heads=1, causal=causal)
    x = torch.randn(2, 9, 64)
    change = (convolution(x, Context()) - x).std() / x.std()
    assert 0 < change < 0.1


@pytest.mark.parametrize("local", LOCALS)
@pytest.mark.parametrize("causal", [True, False])
def test_what_is_local_reaches_no_further_than_its_kernel(local: str, causal: bool) -> None:
    torch.manual_seed(0)
    part = factory("local", local)(8, num_heads=1, causal=causal)
    assert isinstance(part, nn.Module)
    x = torch.randn(1, 12, 8, requires_grad=True)
    part(x, Context())[0, 6].sum().backward()
    assert x.grad is not None
    reached = (x.grad[0] != 0).any(-1).nonzero().squeeze(1).tolist()
    expected = {
        ("short_conv", True): [3, 4, 5, 6],
        ("short_conv", False): [4, 5, 6, 7],
        ("token_shift", True): [5, 6],
        ("token_shift", False): [5, 6, 7],
    }
    assert reached == expected[local, causal]
