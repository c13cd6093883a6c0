"""Single layers beside the layers that they compete with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtohead.components.component import Context
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.mixers.attention.softmax_attention import split_heads
from headtohead.components.mixers.linear.gated_delta import GatedDelta
from headtohead.components.mixers.linear.kernel_attention import Features, KernelAttention
from headtohead.components.mixers.linear.linear_attention import Performer
from headtohead.components.mixers.linear.mamba2 import Mamba2, Mamba2Selection
from headtohead.components.mixers.linear.matrix_memory import MemoryInputs
from headtohead.components.mixers.linear.rwkv7 import STRONGEST_DECAY, Rwkv7
from headtohead.components.mixers.recurrent.mamba import InnerChannels, Mamba
from headtohead.components.mixers.recurrent.torch_recurrence import Gru
from headtohead.components.mixture_of_experts import MixtureOfExperts, Routing
from headtohead.components.norms import RmsNorm
from headtohead.diagnostics.peers import layer_peers
from headtohead.diagnostics.peers.alternation import Pair, PeerComparison, Work

NUM_HEADS, HEAD_WIDTH = 8, 64
D_MODEL = NUM_HEADS * HEAD_WIDTH
Form = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A function of queries, keys, values [1, H, L, K] and the model's stream [1, L, D], of which gates are made."""


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


ATTENTION = "causal fused attention"
WIDTH = 256


def comparisons() -> Iterator[PeerComparison]:
    """Yield the layers that are compared, in time and in peak memory."""
    mixers = (("RWKV-7", layer_peers.rwkv7, 0.9), ("performer", layer_peers.performer, 0.75))
    for name, make, target in mixers:
        yield PeerComparison("mixers", f"{name}, T = 512", ATTENTION, target, partial(mixing, make, 512))
    memories = (
        ("gated delta", layer_peers.gated_delta),
        ("Mamba-2", layer_peers.mamba2),
        ("RWKV-7", layer_peers.rwkv7),
    )
    for name, make in memories:
        for length in (2048, 8192):
            work = f"peak memory of {name}, T = {length:,}"
            yield PeerComparison("memory", work, ATTENTION, 3.0, partial(mixing, make, length), measures="memory")
    for length in (256, 512):
        yield PeerComparison("mamba", f"Mamba layer, T = {length}", "mambapy", 3.0, partial(mamba, length), "mambapy")
    for num_experts, target in {8: 0.85, 32: 0.7}.items():
        work = f"mixture of experts, {num_experts} of 2, bf16"
        yield PeerComparison("moe", work, "dense of equal active FLOPs", target, partial(experts, num_experts))
    yield PeerComparison("norm", "rms_norm", "nn.LayerNorm", 0.7, norms)
    yield PeerComparison("gru", "GRU mixer", "nn.LSTM of equal width", 0.6, recurrences)


def _both_ways(call: Callable[[], Tensor], leaves: list[Tensor], *, half: bool = False) -> Work:
    """Return work that computes a layer and all its gradients."""

    def work() -> None:
        for leaf in leaves:
            leaf.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            y = call()
        y.backward(torch.ones_like(y))

    return work


def _layer(layer: nn.Module, x: Tensor, call: Callable[[], Tensor], *, half: bool = False) -> Work:
    return _both_ways(call, [x, *layer.parameters()], half=half)


def mixing(make: Callable[[], Form], length: int) -> Pair:
    form = make()
    inputs = [torch.randn(1, NUM_HEADS, length, HEAD_WIDTH, requires_grad=True) for _ in range(3)]
    inputs.append(torch.randn(1, length, D_MODEL, requires_grad=True))
    return Pair(_both_ways(lambda: form(*inputs), inputs), _both_ways(lambda: layer_peers.attention(*inputs), inputs))


def mamba(length: int) -> Pair:
    """Compare layers of the same weights, which both lay out as published."""
    from mambapy.mamba import MambaBlock, MambaConfig

    ours = Mamba(WIDTH, num_heads=1, causal=True, inner=InnerChannels(state=16))
    theirs = MambaBlock(MambaConfig(d_model=WIDTH, n_layers=1, d_state=16))
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    return Pair(_layer(ours, x, lambda: ours(x, Context())), _layer(theirs, x, lambda: theirs(x)))


def experts(num_experts: int) -> Pair:
    """Two experts read each token, so that the dense layer is twice as wide as one."""
    x, context = torch.randn(8, 256, WIDTH, requires_grad=True), Context(causal=True)
    ours = MixtureOfExperts(WIDTH, routing=Routing(num_experts=num_experts))
    theirs = DenseFeedForward(WIDTH, multiple=8.0)
    return Pair(
        _layer(ours, x, lambda: ours(x, context), half=True), _layer(theirs, x, lambda: theirs(x, context), half=True)
    )


def norms() -> Pair:
    x, context = torch.randn(8, 256, WIDTH, requires_grad=True), Context()
    ours, theirs = RmsNorm(WIDTH), nn.LayerNorm(WIDTH)
    return Pair(_layer(ours, x, lambda: ours(x, context)), _layer(theirs, x, lambda: theirs(x)))


def recurrences() -> Pair:
    x, context = torch.randn(16, 128, WIDTH, requires_grad=True), Context(causal=True)
    ours = Gru(WIDTH, num_heads=1, causal=True)
    theirs = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    return Pair(_layer(ours, x, lambda: ours(x, context)), _layer(theirs, x, lambda: theirs(x)[0]))
