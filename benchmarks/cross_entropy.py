"""Head and loss of a language model, forward and backward: row chunks against whole logits, in turn, in one process.

    python benchmarks/cross_entropy.py [--rounds 7] [--threads 1]

Prints the median seconds of each and the median of the ratios of neighbouring runs (above 1: chunks are faster).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.tasks.chunked_cross_entropy import Workspace, cross_entropy_sum

Step = Callable[[], None]
PATIENCE_SECONDS = 60
"""A processor without units for bf16 needs more than a minute for whole logits of a large vocabulary."""


@dataclass(frozen=True)
class Case:
    name: str
    num_rows: int
    d_model: int
    vocab_size: int


CASES = (
    Case("vocabulary of 50257", 1024, 256, 50257),
    Case("vocabulary of 8192", 2048, 256, 8192),
    Case("vocabulary of 256", 4096, 128, 256),
)


def steps(case: Case, precision: str) -> tuple[Step, Step]:
    """One training step of each form on the same numbers."""
    torch.manual_seed(0)
    features = torch.randn(case.num_rows, case.d_model, requires_grad=True)
    weight = (torch.randn(case.vocab_size, case.d_model) * 0.02).requires_grad_()
    targets = torch.randint(0, case.vocab_size, (case.num_rows,))
    workspace = Workspace()

    def context() -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext()

    def run(loss: Callable[[], Tensor]) -> None:
        features.grad = weight.grad = None
        with context():
            mean = loss() / case.num_rows
        mean.backward()

    def chunked() -> Tensor:
        return cross_entropy_sum(features, weight, None, targets, workspace=workspace)

    def plain() -> Tensor:
        return F.cross_entropy(F.linear(features, weight), targets, reduction="sum")

    return (lambda: run(chunked)), (lambda: run(plain))


def seconds(step: Step) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def paired(ours: Step, theirs: Step, rounds: int) -> Iterator[tuple[float, float]]:
    """A B A B, after one step of each to warm up; stops early where it would take minutes."""
    ours()
    theirs()
    started = time.perf_counter()
    for _ in range(rounds):
        yield seconds(ours), seconds(theirs)
        if time.perf_counter() - started > PATIENCE_SECONDS:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    say = sys.stdout.write
    say(f"{'case':<22}{'precision':<11}{'chunks s':>10}{'whole s':>10}{'ratio':>8}\n")
    for case in CASES:
        for precision in ("fp32", "bf16"):
            pairs = list(paired(*steps(case, precision), chosen.rounds))
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            say(f"{case.name:<22}{precision:<11}{ours:>10.4f}{theirs:>10.4f}{ratio:>8.2f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
