"""Mamba-3, projections and rotations included, against its equations with complex states, one head and token at a
time."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.linear.mamba3 import Mamba3

WIDTH, HEADS, LENGTH, STATES = 6, 2, 23, 10


def normed(x: Tensor, weight: Tensor) -> Tensor:
    return weight * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def as_complex(x: Tensor) -> Tensor:
    """Return the pairs that rotate, two of ten states each, and the others as they are."""
    return torch.cat((torch.view_as_complex(x[:4].unflatten(0, (2, 2)).contiguous()), x[4:].to(torch.complex128)))


@torch.no_grad()
def test_mamba3_is_the_papers_recurrence_with_complex_states() -> None:
    """A state of pairs that turn by angles equals one in which queries and keys are turned by their sums instead."""
    torch.manual_seed(0)
    mixer = Mamba3(WIDTH, num_heads=HEADS, causal=True, state=STATES, expand=1.0, chunk_size=8).double()
    for parameter in mixer.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(LENGTH, WIDTH, dtype=torch.float64)
    z, v, B, C, step, strength, share, angle = (x @ mixer.in_proj.weight.T).split(mixer.parts, dim=-1)
    dt, A, lam = F.softplus(step + mixer.dt_bias), -F.softplus(strength), share.sigmoid()
    assert mixer.num_angles == 2
    heads = []
    for head in range(HEADS):
        keys = [as_complex(normed(b, mixer.B_norm.weight) + mixer.B_bias[head]) for b in B]
        queries = [as_complex(normed(c, mixer.C_norm.weight) + mixer.C_bias[head]) for c in C]
        values = v.chunk(HEADS, -1)[head].to(torch.complex128)
        h, rows = torch.zeros(len(keys[0]), WIDTH // HEADS, dtype=torch.complex128), []
        for t in range(LENGTH):
            turn = torch.cat(
                (torch.polar(torch.ones(2).double(), -math.pi * angle[t].tanh() * dt[t, head]), torch.ones(6))
            )
            decay = (dt[t, head] * A[t, head]).exp() * turn[:, None]
            written = lam[t, head] * dt[t, head] * torch.outer(keys[t], values[t])
            if t:
                written = written + (1 - lam[t, head]) * dt[t, head] * decay * torch.outer(keys[t - 1], values[t - 1])
            h = decay * h + written
            rows.append((queries[t].conj() @ h).real + mixer.D[head] * values[t].real)
        heads.append(torch.stack(rows))
    expected = (torch.cat(heads, dim=-1) * F.silu(z)) @ mixer.out_proj.weight.T
    assert torch.allclose(mixer(x[None], Context())[0], expected, rtol=0, atol=1e-10)
