"""Mamba's selective scan, forward and backward, against the `mambapy` package's parallel scan: in turn, in one process.

    pip install headtohead[bench]
    python benchmarks/scans.py [--rounds 5] [--threads 1] [--batch 1] [--width 512] [--states 16]

Prints, for every length, the median milliseconds of each, the median of the ratios of neighbouring runs (above 1: ours
is faster), their range, and how far the two outputs differ; first for the scans alone, then for whole layers of equal
shape. The target is a ratio of 2 for the scan.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from mambapy.mamba import MambaBlock, MambaConfig
from mambapy.pscan import pscan
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.recurrent.mamba import InnerChannels, Mamba
from headtohead.components.sequence_ops.scan import selective_scan

LENGTHS = (256, 512, 1024, 2048)
Form = Callable[[], Tensor]


def theirs(x: Tensor, step: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Call the scan as that package's layer does."""
    decay = torch.exp(step[..., None] * A)
    inputs = step[..., None] * B[:, :, None] * x[..., None]
    states: Tensor = pscan(decay, inputs)
    return (states @ C[..., None]).squeeze(3)


def scans(batch: int, length: int, width: int, states: int) -> tuple[Form, Form]:
    x, step = (torch.randn(batch, length, width) for _ in range(2))
    A = -torch.arange(1.0, states + 1).expand(width, -1).contiguous()
    B, C = (torch.randn(batch, length, states) for _ in range(2))
    provided = [tensor.requires_grad_() for tensor in (x, F.softplus(step - 4), A, B, C)]
    return (lambda: selective_scan(*provided)[0]), (lambda: theirs(*provided))


def layers(batch: int, length: int, width: int, states: int) -> tuple[Form, Form]:
    """Copy the weights: both lay them out as published."""
    d_model = width // 2
    ours = Mamba(d_model, num_heads=1, causal=True, inner=InnerChannels(state=states))
    other = MambaBlock(MambaConfig(d_model=d_model, n_layers=1, d_state=states))
    other.load_state_dict(ours.state_dict())
    x = torch.randn(batch, length, d_model, requires_grad=True)
    return (lambda: ours(x, Context())), (lambda: other(x))


def seconds(form: Form) -> float:
    started = time.perf_counter()
    form().sum().backward()
    return time.perf_counter() - started


def row(name: str, length: int, pair: tuple[Form, Form], rounds: int) -> str:
    """A B A B, after one run of each to warm up."""
    ours, other = pair
    with torch.no_grad():
        expected = other()
        apart = float((ours() - expected).abs().max() / expected.abs().max())
    seconds(ours), seconds(other)
    times = [(seconds(ours), seconds(other)) for _ in range(rounds)]
    a, b = (1e3 * statistics.median(side) for side in zip(*times, strict=True))
    ratios = [slow / fast for fast, slow in times]
    spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
    return f"{name:<7}{length:>7}{a:>10.1f}{b:>12.1f}{statistics.median(ratios):>8.2f}{spread:>13}{apart:>10.0e}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("rounds", 5), ("threads", 1), ("batch", 1), ("width", 512), ("states", 16)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    sys.stdout.write(f"{'':<7}{'length':>7}{'ours ms':>10}{'mambapy ms':>12}{'ratio':>8}{'range':>13}{'apart':>10}\n")
    for name, make in (("scan", scans), ("layer", layers)):
        for length in LENGTHS:
            pair = make(chosen.batch, length, chosen.width, chosen.states)
            sys.stdout.write(row(name, length, pair, chosen.rounds))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
