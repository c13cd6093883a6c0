"""The mixing parts of linear mixers on the same heads of queries, keys and values, without their projections: what they
are compared with is causal fused attention."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.attention.softmax_attention import split_heads
from headtohead.components.mixers.linear.gated_delta import GatedDelta
from headtohead.components.mixers.linear.kernel_attention import Features, KernelAttention
from headtohead.components.mixers.linear.linear_attention import Performer
from headtohead.components.mixers.linear.mamba2 import Mamba2, Mamba2Selection
from headtohead.components.mixers.linear.matrix_memory import MemoryInputs
from headtohead.components.mixers.linear.rwkv7 import STRONGEST_DECAY, Rwkv7
from headtohead.components.mixers.recurrent.mamba import InnerChannels

NUM_HEADS, HEAD_WIDTH = 8, 64
D_MODEL = NUM_HEADS * HEAD_WIDTH
Form = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From queries, keys, values [1, H, L, K] and the model's stream [1, L, D], of which gates are made."""


def attention(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    del x
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def means(mixer: KernelAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return mixer.means_before(Features(mixer.query_features(q), mixer.key_features(k)), v, Context())


def performer() -> Form:
    mixer = Performer(D_MODEL, num_heads=NUM_HEADS, causal=True)
    return lambda q, k, v, _: means(mixer, q, k, v)


def mamba2() -> Form:
    mixer = Mamba2(D_MODEL, num_heads=NUM_HEADS, causal=True, inner=InnerChannels(state=HEAD_WIDTH, expand=1.0))

    def form(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        step = F.softplus(x[..., :NUM_HEADS] + mixer.dt_bias).mT
        return mixer.read(Mamba2Selection(v, x, step, k, q))[0]

    return form


def gated_delta() -> Form:
    mixer = GatedDelta(D_MODEL, num_heads=NUM_HEADS, causal=True)

    def form(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        q, k = (F.normalize(part, dim=-1) for part in (q, k))
        rate, step = (split_heads(x[..., part * NUM_HEADS :][..., :NUM_HEADS], 1) for part in range(2))
        rate, log_decay = rate.sigmoid(), -F.softplus(step)
        return mixer.read(MemoryInputs(q=q, k=k, v=v, log_decay=log_decay, rate=rate, reads=-rate * k), None)

    return form


def rwkv7() -> Form:
    mixer = Rwkv7(D_MODEL, num_heads=NUM_HEADS, causal=True)

    def form(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        gates = split_heads(x.sigmoid(), HEAD_WIDTH)
        log_decay, removal = -STRONGEST_DECAY * gates, F.normalize(k, dim=-1)
        reads, writes = -(removal * log_decay.neg().exp()), removal * gates
        return mixer.read(MemoryInputs(q=q, k=k, v=v, log_decay=log_decay, reads=reads, writes=writes), None)

    return form
