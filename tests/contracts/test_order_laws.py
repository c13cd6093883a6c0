"""Every part of a stack tells the order of tokens exactly where its class says so."""

from __future__ import annotations

from functools import partial

import pytest

from contracts.choices import can_look, factory, names
from headtohead.components.block_parts import FeedForward
from headtohead.components.component import Mixer
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.norms import NoNorm
from headtohead.components.positions.absolute import NoPosition
from headtohead.components.residuals import PreNorm
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.diagnostics.laws import LawSubject, alone
from order_laws import order_is_seen, permutation_equivariance

NARROW: dict[str, dict] = {
    "sliding_window": {"window": 3},
    "sink_window": {"window": 3},
    "strided": {"window": 2, "stride": 3},
    "longformer": {"window": 3, "num_global": 2},
    "bigbird": {"block_size": 2, "num_random": 1},
}
"""Options by which a short row is more than a mixer sees at once."""
TO_BOTH_SIDES = [name for name in names("mixer") if can_look(factory("mixer", name), causal=False)]


def require_what_it_says(part: type[Mixer] | type[FeedForward], subject: LawSubject) -> None:
    (order_is_seen if part.follows_order else permutation_equivariance)(subject)


@pytest.mark.parametrize("name", TO_BOTH_SIDES)
def test_a_mixer_tells_the_order_of_tokens_where_it_says_so(name: str) -> None:
    mixer = factory("mixer", name, **NARROW.get(name, {}))
    require_what_it_says(mixer.func, LawSubject(alone(mixer, causal=False)))


def stack_with(**parts: partial) -> LawSubject:
    plain = {"mixer": SoftmaxAttention, "position": NoPosition, "norm": NoNorm, "residual": PreNorm}
    made = StackParts(**{**plain, "feedforward": DenseFeedForward, **parts})
    return LawSubject(partial(Stack, StackSize(16, num_layers=1, num_heads=4), made, causal=False, max_length=64))


@pytest.mark.parametrize("name", names("local"))
def test_a_local_part_tells_the_order_of_tokens_where_it_says_so(name: str) -> None:
    local = factory("local", name)
    require_what_it_says(local.func, stack_with(local=local))


@pytest.mark.parametrize("name", names("feedforward"))
def test_a_feedforward_layer_tells_the_order_of_tokens_where_it_says_so(name: str) -> None:
    feedforward = factory("feedforward", name)
    require_what_it_says(feedforward.func, stack_with(feedforward=feedforward))
