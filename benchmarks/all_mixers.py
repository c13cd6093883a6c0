"""Measure every causal mixer beside causal softmax attention: a forward and a backward pass, and what autograd saves.

    python benchmarks/all_mixers.py [--lengths 512 2048] [--rounds 5] [--write]

All mixers of `conf/model/mixer` that can be causal take part as they ship, projections included, at one width and
number of heads, on one thread. Each is run in turn with softmax attention; the ratio is the median over neighbouring
runs (above 1: the mixer is faster), and memory is the bytes that the backward pass needs, as multiples of softmax
attention's. Prints a table; `--write` puts it into docs/mixers.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from headtohead.architectures.operation_counter import saved_bytes
from headtohead.components.component import Context, Mixer
from headtohead.config.compose.choices import choices
from headtohead.config.instantiate import make
from headtohead.files.safe_read import read_yaml
from headtohead.training.parallel.devices import device_name

PAGE = Path(__file__).parents[1] / "docs" / "mixers.md"
BASELINE = "softmax_attention"


@dataclass(frozen=True)
class Measured:
    """One mixer at one length, as multiples of softmax attention."""

    speed: float
    memory: float


def mixers(width: int, num_heads: int) -> Iterator[tuple[str, Mixer]]:
    """Yield the causal mixers that ship, each as its file has it."""
    for choice in choices("model/mixer"):
        node = read_yaml(choice.path)
        assert isinstance(node, dict)
        mixer = make(node)
        if mixer.func.can_be_causal:
            torch.manual_seed(0)
            yield choice.name, mixer(width, num_heads=num_heads, causal=True, dropout=0.0)


def seconds(mixer: Mixer, x: torch.Tensor) -> float:
    """Return the time of one forward and one backward pass."""
    mixer.zero_grad()
    inputs = x.clone().requires_grad_()
    start = time.perf_counter()
    mixer(inputs, Context(causal=True)).sum().backward()
    return time.perf_counter() - start


def memory(mixer: Mixer, x: torch.Tensor) -> int:
    """Return the bytes that the backward pass needs."""
    with saved_bytes(mixer) as saved:
        mixer(x.clone().requires_grad_(), Context(causal=True))
        return saved()


def measured(mixer: Mixer, baseline: Mixer, x: torch.Tensor, rounds: int) -> Measured:
    for each in (mixer, baseline):  # to warm up
        seconds(each, x)
    pairs = [(seconds(mixer, x), seconds(baseline, x)) for _ in range(rounds)]
    return Measured(median(other / own for own, other in pairs), memory(mixer, x) / memory(baseline, x))


def table(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the table, one for each mixer as soon as it is measured."""
    lengths: Sequence[int] = arguments.lengths
    titles = [f"{what}, {length}" for what in ("speed", "memory") for length in lengths]
    yield f"| mixer | {' | '.join(titles)} | parameters |"
    yield f"| --- |{' ---: |' * (len(titles) + 1)}"
    made = dict(mixers(arguments.d_model, arguments.num_heads))
    for name, mixer in made.items():
        inputs = [torch.randn(arguments.batch_size, length, arguments.d_model) for length in lengths]
        results = [measured(mixer, made[BASELINE], x, arguments.rounds) for x in inputs]
        cells = [f"{one.speed:.2f}" for one in results] + [f"{one.memory:.2f}" for one in results]
        yield f"| `{name}` | {' | '.join(cells)} | {sum(weight.numel() for weight in mixer.parameters()):,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--d_model", type=int, default=256)
    parser.add_argument("--num_heads", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write the table into docs/mixers.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = []
    for line in table(arguments):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        lines.append(line)
    if arguments.write:
        machine = f"{device_name(torch.device('cpu'))}, one thread, torch {torch.__version__}"
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition("<!-- table -->\n")
        _, _, after = rest.partition("<!-- end -->\n")
        PAGE.write_text(f"{before}<!-- table -->\n{machine}:\n\n" + "\n".join(lines) + f"\n<!-- end -->\n{after}")


if __name__ == "__main__":
    main()
