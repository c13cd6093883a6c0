"""The delta rules and gated linear attention, projections and gates included, against loops written from the papers'
equations, one row, head and token at a time: slow twins share the fast mixers' projections."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.linear.delta_rule import DeltaShape
from headtohead.components.mixers.linear.gated_delta import GatedDelta
from headtohead.components.mixers.linear.gated_linear import GatedLinearAttention
from headtohead.components.mixers.linear.matrix_memory import MemoryShape
from headtohead.components.mixers.linear.rwkv6 import Rwkv6
from headtohead.components.mixers.linear.rwkv7 import Rwkv7

WIDTH, HEADS, LENGTH = 12, 3, 37
SHARE = WIDTH // HEADS


def shaken(mixer: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in mixer.double().parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


def tokens() -> Tensor:
    return torch.randn(LENGTH, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def of_head(x: Tensor, head: int) -> Tensor:
    return x.chunk(HEADS, dim=-1)[head]


def unit(x: Tensor, eps: float = 1e-6) -> Tensor:
    """Return x at unit length; as in the published code of delta rules, zero stays zero."""
    return x / (x.square().sum() + eps).sqrt()


def rms_normed(y: Tensor, weight: Tensor) -> Tensor:
    return weight * y / (y.square().mean() + 1e-5).sqrt()


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    """Return silu of the taps over x_{t-3} ... x_t, the last tap on the token itself."""
    rows = [sum(weight[:, 0, 3 - back] * x[t - back] for back in range(min(t, 3) + 1)) for t in range(len(x))]
    return F.silu(torch.stack([torch.as_tensor(row) for row in rows]))


@torch.no_grad()
def test_heads_that_share_queries_and_keys_are_heads_with_copies_of_them() -> None:
    torch.manual_seed(0)
    widths = {"num_value_heads": 6, "key_width": 5, "value_width": 2}
    shared = GatedDelta(WIDTH, num_heads=HEADS, causal=True, shape=DeltaShape(num_key_heads=2, **widths))
    apart = GatedDelta(WIDTH, num_heads=HEADS, causal=True, shape=DeltaShape(**widths))
    shaken(shared)
    apart.double()
    weights = shared.state_dict()
    *convolved_keys, convolved_values = weights["conv.weight"].split([10, 10, 12])
    for name in ("query", "key"):
        weights[f"{name}.weight"] = copied(weights[f"{name}.weight"])
    weights["conv.weight"] = torch.cat([*map(copied, convolved_keys), convolved_values])
    apart.load_state_dict(weights)
    x = tokens()[None]
    torch.testing.assert_close(shared(x, Context()), apart(x, Context()))


def copied(rows: Tensor) -> Tensor:
    """Return the rows of two heads, each of them three times."""
    return rows.unflatten(0, (2, 5)).repeat_interleave(3, 0).flatten(0, 1)


def test_heads_of_keys_that_do_not_divide_those_of_values_are_refused() -> None:
    with pytest.raises(ValueError, match="num_key_heads=2 does not divide the 3 heads of values: choose a divisor"):
        GatedDelta(WIDTH, num_heads=HEADS, causal=True, shape=DeltaShape(num_key_heads=2))


@torch.no_grad()
def test_gated_delta_is_the_papers_recurrence() -> None:
    torch.manual_seed(0)
    mixer, x = GatedDelta(WIDTH, num_heads=HEADS, causal=True), tokens()
    shaken(mixer)
    assert mixer.conv is not None and mixer.decay is not None and mixer.gate is not None
    assert mixer.log_strength is not None and mixer.decay_bias is not None
    taps = mixer.conv.weight.split([WIDTH, WIDTH, 2 * WIDTH])  # values are twice as wide as keys
    linears = (mixer.query, mixer.key, mixer.value)
    q, k, v = (convolved(x @ part.weight.T, tap) for part, tap in zip(linears, taps, strict=True))
    beta = torch.sigmoid(x @ mixer.rate.weight.T)
    alpha = torch.exp(-mixer.log_strength.exp() * F.softplus(x @ mixer.decay.weight.T + mixer.decay_bias))
    heads = []
    for head in range(HEADS):
        S, rows = torch.zeros(2 * SHARE, SHARE, dtype=x.dtype), []
        for t in range(LENGTH):
            k_t, q_t, b, v_t = unit(of_head(k[t], head)), unit(of_head(q[t], head)), beta[t, head], of_head(v[t], head)
            keep = torch.eye(SHARE, dtype=x.dtype) - b * torch.outer(k_t, k_t)
            S = alpha[t, head] * S @ keep + b * torch.outer(v_t, k_t)
            rows.append(rms_normed(S @ q_t / math.sqrt(SHARE), mixer.norm.weight))
        heads.append(torch.stack(rows))
    expected = (torch.cat(heads, dim=-1) * F.silu(x @ mixer.gate.weight.T)) @ mixer.output.weight.T
    assert torch.allclose(mixer(x[None], Context())[0], expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_gated_linear_attention_is_the_papers_recurrence() -> None:
    torch.manual_seed(0)
    mixer, x = GatedLinearAttention(WIDTH, num_heads=HEADS, causal=True, shape=MemoryShape()), tokens()
    shaken(mixer)
    low = x @ mixer.decay_down.weight.T
    alpha = torch.sigmoid(low @ mixer.decay_up.weight.T + mixer.decay_up.bias) ** (1 / 16)
    q, k, v = (x @ part.weight.T for part in (mixer.query, mixer.key, mixer.value))
    heads = []
    for head in range(HEADS):
        S, rows = torch.zeros(SHARE, SHARE, dtype=x.dtype), []
        for t in range(LENGTH):
            S = of_head(alpha[t], head)[:, None] * S + torch.outer(of_head(k[t], head), of_head(v[t], head))
            rows.append(rms_normed(of_head(q[t], head) @ S / math.sqrt(SHARE), mixer.norm.weight))
        heads.append(torch.stack(rows))
    expected = (torch.cat(heads, dim=-1) * F.silu(x @ mixer.gate.weight.T)) @ mixer.output.weight.T
    assert torch.allclose(mixer(x[None], Context())[0], expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_rwkv7_is_the_papers_recurrence() -> None:
    torch.manual_seed(0)
    mixer, x = Rwkv7(WIDTH, num_heads=HEADS, causal=True), tokens()
    shaken(mixer)
    before = torch.cat((torch.zeros_like(x[:1]), x[:-1]))
    x_r, x_w, x_k, x_v, x_a, x_g = (x + (before - x) * share for share in mixer.shift)
    r, k, v = x_r @ mixer.receptance.weight.T, x_k @ mixer.key.weight.T, x_v @ mixer.value.weight.T
    d = mixer.decay_base + torch.tanh(x_w @ mixer.decay_down.weight.T) @ mixer.decay_up.weight.T
    w = torch.exp(-math.exp(-0.5) * torch.sigmoid(d))
    a = torch.sigmoid(mixer.rate_base + x_a @ mixer.rate_down.weight.T @ mixer.rate_up.weight.T)
    g = torch.sigmoid(x_g @ mixer.gate_down.weight.T) @ mixer.gate_up.weight.T
    kappa, k = k * mixer.removal, k * (1 + (a - 1) * mixer.rate_in_key)
    heads = []
    for head in range(HEADS):
        S, rows = torch.zeros(SHARE, SHARE, dtype=x.dtype), []
        scale, shift, rho = (of_head(part, head) for part in (mixer.norm_weight, mixer.norm_bias, mixer.bonus))
        for t in range(LENGTH):
            r_t, w_t, k_t, v_t, a_t = (of_head(part[t], head) for part in (r, w, k, v, a))
            removed = unit(of_head(kappa[t], head), eps=0.0)
            S = S @ (torch.diag(w_t) - torch.outer(removed, a_t * removed)) + torch.outer(v_t, k_t)
            y = S @ r_t
            normed = (y - y.mean()) / (y.var(correction=0) + 1e-5 * SHARE).sqrt() * scale + shift
            rows.append(normed + (r_t * rho * k_t).sum() * v_t)
        heads.append(torch.stack(rows))
    expected = (torch.cat(heads, dim=-1) * g) @ mixer.output.weight.T
    assert torch.allclose(mixer(x[None], Context())[0], expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_rwkv6_is_the_papers_recurrence() -> None:
    torch.manual_seed(0)
    mixer, x = Rwkv6(WIDTH, num_heads=HEADS, causal=True, shift_rank=5, decay_rank=7), tokens()
    shaken(mixer)
    step = torch.cat((torch.zeros_like(x[:1]), x[:-1])) - x
    low = torch.tanh((x + step * mixer.shift[0]) @ mixer.shift_down.weight.T)
    shares = [mixer.shift[1 + i] + low[:, 5 * i : 5 * i + 5] @ up.weight.T for i, up in enumerate(mixer.shift_up)]
    x_w, x_k, x_v, x_r, x_g = (x + step * share for share in shares)
    r, k, v = x_r @ mixer.receptance.weight.T, x_k @ mixer.key.weight.T, x_v @ mixer.value.weight.T
    d = mixer.decay_base + torch.tanh(x_w @ mixer.decay_down.weight.T) @ mixer.decay_up.weight.T
    w, g = torch.exp(-torch.exp(d)), F.silu(x_g @ mixer.gate.weight.T)
    heads = []
    for head in range(HEADS):
        S, rows = torch.zeros(SHARE, SHARE, dtype=x.dtype), []
        scale, shift, u = (of_head(part, head) for part in (mixer.norm_weight, mixer.norm_bias, mixer.bonus))
        for t in range(LENGTH):
            r_t, w_t, k_t, v_t = (of_head(part[t], head) for part in (r, w, k, v))
            y = r_t @ (S + torch.diag(u) @ torch.outer(k_t, v_t))
            S = torch.diag(w_t) @ S + torch.outer(k_t, v_t)
            rows.append((y - y.mean()) / (y.var(correction=0) + 1e-5 * SHARE).sqrt() * scale + shift)
        heads.append(torch.stack(rows))
    expected = (torch.cat(heads, dim=-1) * g) @ mixer.output.weight.T
    assert torch.allclose(mixer(x[None], Context())[0], expected, rtol=0, atol=1e-10)
