"""However fast a mixer forgets, its gradients in float32 are those of float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contracts.choices import factory, names, slow_twin
from headtohead.diagnostics.laws import LawSubject, alone

LEVELS = (-1e-3, -0.5, -2.0, -8.0, -20.0, -30.0)
"""Log decays, from hardly any to nearly all."""
LENGTHS = (2, 9, 70)
"""The lengths within a chunk, and beyond it."""
READS_BEFORE_DECAY = {"rwkv6"}
"""Mixers whose second token reads what the first wrote before it decays: one token more shows the decay."""
FORGETS_NOTHING = {
    *(
        "bigbird",
        "fourier",
        "linformer",
        "longformer",
        "low_rank",
        "mlp_mixer",
        "moba",
        "nystrom",
        "pooling",
        "sliding_window",
        "softmax_attention",
        "strided",
    ),
    *(
        "differential_attention",
        "disentangled_attention",
        "gated_attention",
        "latent_attention",
        "sink_attention",
        "sink_window",
        "value_residual",
    ),
    "stick_breaking",
    *(
        "based",
        "linear_attention",
        "performer",
        "retention",
        "lightning_attention",
        "short_conv",
        "gated_short_conv",
        "hyena",
    ),
    *("gru", "lstm", "rnn"),
}
"""Mixers without a decay that learns: attention, sums, convolutions, fixed decays, and the kernels of torch."""
STEP = math.log(math.expm1(1.0))
"""Its softplus is 1."""


def below_one(log_share: float) -> float:
    """Return what has this logarithm of its sigmoid."""
    return log_share - math.log(-math.expm1(log_share))


def of_min_lstm(mixer: nn.Module, level: float) -> None:
    ahead = -below_one(level)
    mixer.input.bias.fill_(min(ahead, 5.0))
    mixer.forget.bias.fill_(-max(ahead, -5.0))


def of_hgrn2(mixer: nn.Module, level: float) -> None:
    mixer.floor.fill_(-40.0)
    mixer.forget.bias.fill_(below_one(level))


def of_mamba3(mixer: nn.Module, level: float) -> None:
    """A bias would do what steps do here: strengths come from the tokens alone, near log 2."""
    mixer.dt_bias.fill_(math.log(math.expm1(-level / math.log(2.0))))


def of_steps(strength: str, bias: Callable[[Any], Tensor]) -> Callable[[nn.Module, float], None]:
    def forget(mixer: nn.Module, level: float) -> None:
        getattr(mixer, strength).fill_(math.log(-level))
        bias(mixer).fill_(STEP)

    return forget


MAKE_FORGET: dict[str, Callable[[nn.Module, float], object]] = {
    "forgetting_attention": lambda mixer, level: mixer.forget.bias.fill_(below_one(level)),
    "gated_delta": of_steps("log_strength", lambda mixer: mixer.decay_bias),
    "delta_product": of_steps("log_strength", lambda mixer: mixer.decay_bias),
    "kimi_delta": of_steps("log_strength", lambda mixer: mixer.decay_bias),
    "gated_linear": lambda mixer, level: mixer.decay_up.bias.fill_(below_one(level * mixer.temperature)),
    "hgrn2": of_hgrn2,
    "mamba": of_steps("A_log", lambda mixer: mixer.dt_proj.bias),
    "mamba2": of_steps("A_log", lambda mixer: mixer.dt_bias),
    "mamba3": of_mamba3,
    "min_gru": lambda mixer, level: mixer.update.bias.fill_(-below_one(level)),
    "min_lstm": of_min_lstm,
    "mlstm": lambda mixer, level: mixer.forget_bias.fill_(below_one(level)),
    "rg_lru": lambda mixer, level: mixer.decay.fill_(below_one(level / 4)),
    "rwkv4": lambda mixer, level: mixer.time_decay.fill_(math.log(-level)),
    "rwkv6": lambda mixer, level: mixer.decay_base.fill_(math.log(-level)),
    "slstm": lambda mixer, level: mixer.gate_bias[2].fill_(below_one(level)),
    "rwkv7": lambda mixer, level: mixer.decay_base.fill_(torch.logit(torch.tensor(min(-level / 0.6065, 0.99)))),
    "s4d": lambda mixer, level: mixer.log_decay.copy_(
        (math.log(-level) - mixer.log_step)[:, None].expand_as(mixer.C[..., 0])
    ),
}
"""Sets parameters such that log decays are near a level; RWKV-7 has none below -0.61."""


OF_SCORES = {
    "forgetting_attention": {
        f"blocks.0.mixer.{part}.{name}" for part in ("query", "key", "forget") for name in ("weight", "bias")
    }
}
"""The tensors that reach the outputs only through the scores of a softmax. Where forgetting leaves nearly all weight on
one token, any softmax computes these gradients, small as they are, from a difference of large ones: their error is
measured by the largest gradient, and more strictly. A bias of keys moves all scores of a query alike, and has no
gradient."""
CANCELS = {"mlstm": "blocks.0.mixer.input_bias"}
"""The tensors that multiply all weights, which leaves the normalised mean as it is, so that their gradient is a small
difference of large ones in any form: it errs no more than that of the loop over tokens."""


def gradients(name: str, mixer: partial, level: float, length: int, dtype: torch.dtype) -> dict[str, Tensor]:
    subject = LawSubject(alone(mixer, causal=True), dtype=torch.float32, length=length)
    stack = subject.build()
    with torch.no_grad():
        MAKE_FORGET[name](stack.layers[0].mixer, level)
    stack = stack.to(dtype)
    x, context = subject.inputs(stack)
    x = x.to(dtype).requires_grad_()
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(3)).to(dtype)
    (stack(x, context) * weights).sum().backward()
    return {"the input": x.grad, **{name: held.grad for name, held in stack.named_parameters()}}


def errors(name: str, mixer: partial, level: float, length: int) -> dict[str, float]:
    """Return the norm of the error over that of the gradient, of whatever has one; for parts of a softmax's scores, a
    hundred times that over the largest gradient's."""
    single, double = (gradients(name, mixer, level, length, dtype) for dtype in (torch.float32, torch.float64))
    largest = max(exact.norm() for exact in double.values()) / 100
    scales = {part: largest if part in OF_SCORES.get(name, ()) else exact.norm() for part, exact in double.items()}
    return {
        part: float((single[part] - exact).norm() / scales[part]) for part, exact in double.items() if exact.norm() > 0
    }


@pytest.mark.shapes(False)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", MAKE_FORGET)
def test_gradients_keep_four_digits_at_every_decay(name: str, length: int) -> None:
    fast = factory("mixer", name)
    for level in LEVELS:
        result = errors(name, fast, level, length + (name in READS_BEFORE_DECAY))
        assert len(result) > 3
        wrong = {part: error for part, error in result.items() if not error <= 1e-4}
        if set(wrong) == {CANCELS.get(name)}:
            by_tokens = errors(name, slow_twin(fast), level, length)
            wrong = {part: error for part, error in wrong.items() if not error <= 2 * by_tokens[part]}
        assert wrong == {}, f"at a log decay of {level}"


def test_every_mixer_with_a_decay_is_held_to_it() -> None:
    assert set(MAKE_FORGET) | FORGETS_NOTHING == set(names("mixer"))
    assert not set(MAKE_FORGET) & FORGETS_NOTHING
