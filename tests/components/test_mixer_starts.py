"""Initial mixers can learn: no initialisation leaves a recurrence too forgetful to learn from distant tokens, and
inputs of any size give finite gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contracts.choices import factory
from headtohead.components.component import Context, Mixer
from headtohead.components.mixers.linear.gated_delta import GatedDelta
from headtohead.components.mixers.linear.mamba2 import Mamba2
from headtohead.components.mixers.linear.mlstm import Mlstm
from headtohead.training.optim.optimizers import parameter_groups

WIDTH = 64
RECURRENCES = [
    "based",
    "delta_product",
    "gated_delta",
    "gated_linear",
    "gated_short_conv",
    "gru",
    "hgrn2",
    "hyena",
    "kimi_delta",
    "lightning_attention",
    "linear_attention",
    "lstm",
    "mamba",
    "mamba2",
    "mamba3",
    "min_gru",
    "min_lstm",
    "mlstm",
    "performer",
    "retention",
    "rg_lru",
    "rnn",
    "rwkv4",
    "rwkv6",
    "rwkv7",
    "s4d",
    "short_conv",
    "slstm",
]


def made(name: str, initialisation: str, *, num_heads: int = 1, seed: int = 0) -> Mixer:
    torch.manual_seed(seed)
    mixer: Mixer = factory("mixer", name)(WIDTH, num_heads=num_heads, causal=True)
    factory("initialisation", initialisation)(mixer)
    return mixer


def tokens(length: int = 65) -> Tensor:
    return torch.randn(2, length, WIDTH, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", RECURRENCES)
def test_every_parameter_of_a_mixer_is_drawn_anew(name: str) -> None:
    mixer = made(name, "xavier")
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.fill_(float("nan"))
    factory("initialisation", "gpt2")(mixer)
    assert not [key for key, parameter in mixer.named_parameters() if parameter.isnan().any()]


@pytest.mark.parametrize("initialisation", ["gpt2", "xavier"])
@pytest.mark.parametrize("name", ["gated_delta", "mamba2"])
def test_a_single_head_keeps_most_over_a_few_tokens_whatever_the_seed(name: str, initialisation: str) -> None:
    for seed in range(10):
        mixer = made(name, initialisation, seed=seed)
        assert isinstance(mixer, GatedDelta | Mamba2)
        with torch.no_grad():
            log_decay = (
                mixer.project(tokens()).log_decay
                if isinstance(mixer, GatedDelta)
                else mixer.log_decay(mixer.select(tokens()).step)
            )
        assert float(log_decay.median().exp()) > 0.85


def test_strengths_spread_as_published_however_many_heads() -> None:
    few, many = Mamba2(WIDTH, num_heads=4, causal=True), Mamba2(WIDTH, num_heads=32, causal=True)
    assert few.A_log.exp().tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert many.A_log.exp()[[0, -1]].tolist() == pytest.approx([1.0, 16.0])


@pytest.mark.parametrize("initialisation", ["gpt2", "he", "t5", "xavier"])
def test_gates_of_an_mlstm_start_open_whatever_the_tokens(initialisation: str) -> None:
    mixer = made("mlstm", initialisation, num_heads=4)
    assert isinstance(mixer, Mlstm)
    with torch.no_grad():
        gates = mixer.open_gates(100 * tokens())
    assert (gates.input == 1).all()  # exp(0) of every token
    assert (gates.scale == 0).all()
    assert mixer.forget_bias.sigmoid().tolist() == pytest.approx([0.9526, 0.9820, 0.9933, 0.9975], abs=1e-4)


@pytest.mark.parametrize("name", RECURRENCES)
def test_large_inputs_leave_gradients_that_are_numbers(name: str) -> None:
    mixer, x = made(name, "xavier", num_heads=2), (100 * tokens()).requires_grad_()
    y = mixer(x, Context())
    y.square().mean().backward()
    assert y.isfinite().all()
    assert x.grad is not None
    gradients = {"x": x.grad} | {key: p.grad for key, p in mixer.named_parameters() if p.grad is not None}
    assert not [key for key, gradient in gradients.items() if not gradient.isfinite().all()]


@pytest.mark.parametrize(
    ("name", "spared"),
    [
        ("mamba", {"A_log"}),
        ("s4d", {"log_decay", "frequency"}),
        ("rwkv6", {"shift"}),
        ("rwkv7", {"shift"}),
        ("rwkv4", {"time_mix_key", "time_mix_value", "time_mix_receptance"}),
    ],
)
def test_rates_and_shares_by_channel_are_no_weights_to_decay(name: str, spared: set[str]) -> None:
    mixer = made(name, "xavier")
    names = {id(parameter): key for key, parameter in mixer.named_parameters()}
    decayed, saved = ({names[id(p)] for p in group["params"]} for group in parameter_groups(mixer, weight_decay=0.1))
    assert spared <= saved
    assert all(key.endswith("weight") or key == "C" for key in decayed)
