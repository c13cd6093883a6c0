"""The mixing part of linear mixers against causal fused attention, forward and backward, in turn, in one process.

    python benchmarks/linear_mixers.py [--rounds 7] [--threads 1] [--lengths 256 512 1024 2048 4096 8192]

All get the same heads of queries, keys and values, and give heads of outputs; features, gates, decays and normalisers
count, projections (equal for all) do not. Prints the median milliseconds of attention, and for every mixer the median
of the ratios of neighbouring runs (above 1: the mixer is faster) and its slope, the power of the length by which its
time grows over the last doubling. Targets: every linear mixer ahead from 512 tokens, and 3x at 2048.

On two shared cores some fell short of them, by the matrices they multiply at that length. RWKV-7, which writes and
reads two kinds of keys, had 0.6x to 0.8x at 512, drew level at 1024 and had 1.6x to 2x at 2048. Performer with the
paper's K ln K = 266 features for heads of 64 had 0.5x at 512 and drew level at 2048; with 64 features
(num_features=64, the column performer_64), a coarser estimate, 1.9x at 512. The delta rule had 1x to 1.3x at 512 and
2.4x to 2.9x at 2048; gated linear attention 1.4x and more, and 2.7x to 4.4x.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Mapping

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import Tensor

from headtohead.components.mixers.attention.softmax_attention import split_heads
from headtohead.components.mixers.linear.gated_linear import GatedLinearAttention
from headtohead.components.mixers.linear.linear_attention import LinearAttention, Performer
from headtohead.components.mixers.linear.matrix_memory import MemoryInputs, MemoryShape
from headtohead.components.mixers.linear.mlstm import Mlstm, normalised, with_ones
from headtohead.components.mixers.linear.retention import Retention
from headtohead.diagnostics.peers.layer_peers import (
    D_MODEL,
    HEAD_WIDTH,
    NUM_HEADS,
    Form,
    attention,
    gated_delta,
    mamba2,
    means,
    performer,
    rwkv7,
)


def linear_attention() -> Form:
    mixer = LinearAttention(D_MODEL, num_heads=NUM_HEADS, causal=True)
    return lambda q, k, v, _: means(mixer, q, k, v)


def performer_64() -> Form:
    mixer = Performer(D_MODEL, num_heads=NUM_HEADS, causal=True, num_features=HEAD_WIDTH)
    return lambda q, k, v, _: means(mixer, q, k, v)


def retention() -> Form:
    mixer = Retention(D_MODEL, num_heads=NUM_HEADS, causal=True, value_factor=1)
    return lambda q, k, v, _: mixer.sums(q, k, v, mixer.log_decay(q))[0]


def mlstm() -> Form:
    mixer = Mlstm(D_MODEL, num_heads=NUM_HEADS, causal=True)

    def form(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        gates = mixer.open_gates(x)
        sums, _ = mixer.sums(q, k * gates.input[..., None], with_ones(v), gates.log_forget)
        return normalised(sums, gates)

    return form


def gated_linear() -> Form:
    mixer = GatedLinearAttention(D_MODEL, num_heads=NUM_HEADS, causal=True, shape=MemoryShape())

    def form(q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        log_decay = split_heads(F.logsigmoid(x) / mixer.temperature, HEAD_WIDTH)
        return mixer.read(MemoryInputs(q=q, k=k, v=v, log_decay=log_decay), None)

    return form


def milliseconds(form: Form, inputs: Mapping[str, Tensor], weights: Tensor) -> float:
    for tensor in inputs.values():
        tensor.grad = None
    started = time.perf_counter()
    form(*inputs.values()).backward(weights)
    return 1e3 * (time.perf_counter() - started)


def compared(forms: Mapping[str, Form], length: int, rounds: int) -> tuple[float, dict[str, tuple[float, float]]]:
    """Attention's median, and each form's median and median ratio: A B A B, after one run of each to warm up."""
    torch.manual_seed(0)
    inputs = {name: torch.randn(1, NUM_HEADS, length, HEAD_WIDTH, requires_grad=True) for name in "qkv"}
    inputs["x"] = torch.randn(1, length, D_MODEL, requires_grad=True)
    weights = torch.randn(1, NUM_HEADS, length, HEAD_WIDTH)
    result: dict[str, tuple[float, float]] = {}
    all_theirs: list[float] = []
    for name, form in forms.items():
        pairs = []
        for _ in range(rounds + 1):
            pairs.append((milliseconds(form, inputs, weights), milliseconds(attention, inputs, weights)))
        ours, theirs = zip(*pairs[1:], strict=True)
        all_theirs += theirs
        result[name] = statistics.median(ours), statistics.median(b / a for a, b in pairs[1:])
    return statistics.median(all_theirs), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096, 8192])
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    makers = (linear_attention, retention, mamba2, mlstm, performer, performer_64, gated_linear, gated_delta, rwkv7)
    forms = {make.__name__: make() for make in makers}
    say = sys.stdout.write
    say(f"{'length':>7}{'attention ms':>14}" + "".join(f"{name:>18}" for name in forms) + "\n")
    before: dict[str, float] = {}
    for length in chosen.lengths:
        theirs, result = compared(forms, length, chosen.rounds)
        now = {"attention": theirs, **{name: ours for name, (ours, _) in result.items()}}
        slopes = {name: math.log2(now[name] / before[name]) if before else math.nan for name in now}
        line = f"{length:>7}{theirs:>9.1f}{slopes['attention']:>5.1f}"
        line += "".join(f"{ratio:>11.2f}x{slopes[name]:>6.1f}" for name, (_, ratio) in result.items())
        say(line + "\n")
        sys.stdout.flush()
        before = now


if __name__ == "__main__":
    main()
