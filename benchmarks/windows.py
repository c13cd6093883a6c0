"""A mixer of blocked windows against causal fused attention, forward and backward, in turn, in one process.

    python benchmarks/windows.py [--window 256] [--lengths 1024 2048 4096 8192] [--rounds 5] [--threads 1]

Prints the median seconds of each and the median of the ratios of neighbouring runs (above 1: windows are faster).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch

from headtohead.components.component import Context, Mixer
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention


def seconds(mixer: Mixer, x: torch.Tensor) -> float:
    """One forward and one backward pass."""
    mixer.zero_grad()
    inputs = x.clone().requires_grad_()
    start = time.perf_counter()
    mixer(inputs, Context(causal=True)).sum().backward()
    return time.perf_counter() - start


def compare(length: int, arguments: argparse.Namespace) -> tuple[float, float, float]:
    """Median seconds of windows and of full attention, and the median of their ratios."""
    torch.manual_seed(0)
    width, heads = arguments.d_model, arguments.num_heads
    windows = SlidingWindow(width, num_heads=heads, causal=True, window=arguments.window)
    full = SoftmaxAttention(width, num_heads=heads, causal=True)
    x = torch.randn(arguments.batch_size, length, width)
    for mixer in (windows, full):  # to warm up
        seconds(mixer, x)
    pairs = [(seconds(windows, x), seconds(full, x)) for _ in range(arguments.rounds)]
    fast, slow = (statistics.median(column) for column in zip(*pairs, strict=True))
    return fast, slow, statistics.median(b / a for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--d_model", type=int, default=256)
    parser.add_argument("--num_heads", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    say = sys.stdout.write
    say(f"window {arguments.window}, width {arguments.d_model}, {arguments.num_heads} heads\n")
    for length in arguments.lengths:
        fast, slow, ratio = compare(length, arguments)
        say(f"{length:6d} tokens: windows {fast:.3f} s, causal attention {slow:.3f} s, {ratio:.2f} times\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
