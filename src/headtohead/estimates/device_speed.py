"""A device multiplies, moves and exchanges numbers at rates of its data sheet, or measured where it is at hand."""

from __future__ import annotations

import bisect
import itertools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch
import torch.nn.functional as F

from headtohead.components.processor import cpu_name
from headtohead.estimates.work_meter import CAUSAL, OperationKind
from headtohead.training.memory import memory_limit
from headtohead.training.parallel.device_sheets import DeviceSheet, Format

REACHED = {"products": 0.7, "memory": 0.8, "links": 0.8}
"""The share of a data sheet's rate that good kernels reach on large tensors: products 65 to 75 %, streams 80 to 90 %.
docs/planning.md compares what follows from these with published runs."""
_LAUNCH, _HOP = 6e-6, 10e-6
"""Seconds that a program takes to launch a kernel, and that a message takes to the next device."""
_FORMATS: dict[torch.dtype, Format] = {
    torch.float64: "fp64", torch.float32: "tf32", torch.bfloat16: "bf16", torch.float16: "fp16",
}  # fmt: skip
_UNCACHED = 2**24
"""Numbers of float32 that no cache of a processor holds, half a gigabyte of inputs and outputs at most."""
Curve = tuple[tuple[float, float], ...]
"""Rates by size, in rising order of sizes: FLOP/s by FLOPs of an operation, bytes a second by its bytes."""


@dataclass(frozen=True)
class DeviceSpeed:
    """The rates that a step's time is computed from."""

    name: str
    source: Literal["data sheet", "measured"]
    kind: Literal["cuda", "cpu"]
    memory: float
    per_node: int
    products: Mapping[torch.dtype, Curve]
    attention: Mapping[str, float]
    """Share of the products' rate that a fused attention reaches by the pairs of tokens that its mask allows: in its
    forward and in its backward pass, causal and not."""
    moves: Curve
    costly: float
    """The time of an operation that computes an exponential or the like, in multiples of a sum's."""
    launch: float
    """Seconds of an operation however small."""
    link: float
    network: float
    host: float
    """Bytes a second, one way, between the device and the processor's memory."""
    hop: float
    peaks: Mapping[torch.dtype, float]
    """FLOP/s by which utilisation is reported; none where no data sheet tells."""

    def seconds(self, kind: OperationKind, count: float, flops: float, num_bytes: float) -> float:
        """Return the time of some operations of one kind, by what bounds them: arithmetic or memory."""
        if count <= 0:
            return 0.0
        moving = num_bytes / at(self.moves, num_bytes / count)
        if not kind.is_product:
            return moving * (self.costly if is_costly(kind.name) else 1.0)
        curve = self.products.get(kind.dtype) or self.products[torch.float32]
        rate = at(curve, flops / count)
        if "attention" in kind.name:
            rate *= self.attention[kind.phase + CAUSAL if kind.name.endswith(CAUSAL) else kind.phase]
        return max(flops / rate, moving)

    def exchanged(self, num_bytes: float, devices: int, *, passes: int, spans_nodes: bool) -> float:
        """Return the time of a ring over so many devices: 1 pass gathers or scatters, 2 reduce for all."""
        if devices < 2:
            return 0.0
        rate = self.network if spans_nodes else self.link
        return passes * (devices - 1) * (num_bytes / devices / rate + self.hop)


_COSTLY = (
    "gelu", "exp", "tanh", "softmax", "silu", "sigmoid", "erf", "pow", "log", "sqrt", "norm", "sin", "cos", "cumsum",
)  # fmt: skip


def is_costly(name: str) -> bool:
    return any(word in name for word in _COSTLY)


def at(curve: Curve, size: float) -> float:
    """Return the rate at a size, between those measured by the logarithm of the size."""
    sizes = [known for known, _ in curve]
    index = bisect.bisect_left(sizes, size)
    if index == 0:
        return curve[0][1]
    if index == len(curve):
        return curve[-1][1]
    (low, at_low), (high, at_high) = curve[index - 1], curve[index]
    share = math.log(size / low) / math.log(high / low)
    rate: float = at_low * (at_high / at_low) ** share
    return rate


def speed_of(sheet: DeviceSheet) -> DeviceSpeed:
    """Return the speed that a data sheet leads to expect."""
    tf32 = sheet.peaks.get("tf32", sheet.peaks["fp32"])
    peaks = {dtype: sheet.peaks.get(kind, tf32) for dtype, kind in _FORMATS.items()}
    peaks[torch.float32] = sheet.peaks["fp32"] if torch.get_float32_matmul_precision() == "highest" else tf32
    return DeviceSpeed(
        name=sheet.title,
        source="data sheet",
        kind="cuda",
        memory=sheet.memory,
        per_node=sheet.per_node,
        products={dtype: ((1.0, peak * REACHED["products"]),) for dtype, peak in peaks.items()},
        attention={"forward": 0.75, "backward": 0.6, "forward causal": 0.75, "backward causal": 0.6},
        moves=((1.0, sheet.bandwidth * REACHED["memory"]),),
        costly=1.0,
        launch=_LAUNCH,
        link=sheet.link * REACHED["links"],
        network=sheet.network * REACHED["links"],
        host=sheet.host * REACHED["links"],
        hop=_HOP,
        peaks=peaks,
    )


def measure_cpu(dtype: torch.dtype = torch.float32) -> DeviceSpeed:
    """Return what this machine's processor does with the threads that torch has now, measured in about two seconds.

    One thread is timed by its processor time, which other programs do not lengthen; several by the clock.
    """
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    curve = tuple((2.0 * n**3, 2.0 * n**3 / _usual(_product(n, dtype), clock)) for n in (16, 32, 64, 128, 256, 512))
    elements = (2**10, 2**13, 2**16, 2**19, 2**22)
    sums = [(12.0 * n, _usual(_sum(n), clock)) for n in elements]
    launch = min(seconds for _, seconds in sums) * 0.8
    moves = tuple((size, size / max(seconds - launch, 1e-7)) for size, seconds in sums)
    wide = 2**19
    costly = _usual(_gelu(wide), clock) / (wide * 8.0 / at(moves, wide * 8.0))
    products = {torch.float32: curve, dtype: curve}
    copied = _usual(_copy(2**22), clock)
    return DeviceSpeed(
        name=cpu_name(),
        source="measured",
        kind="cpu",
        memory=memory_limit(torch.device("cpu")),
        per_node=2**10,
        products=products,
        attention={
            phase + end: share
            for end in ("", CAUSAL)
            for phase, share in _attention_shares(curve, clock, dtype, is_causal=bool(end)).items()
        },
        moves=moves,
        costly=max(1.0, costly),
        launch=launch,
        link=2**24 / copied / 4,
        network=2**24 / copied / 4,
        host=2**24 / copied,
        hop=1e-4,
        peaks={},
    )


def _usual(work: Callable[[], object], clock: Callable[[], float], budget: float = 0.06) -> float:
    """Return the seconds of one call, in the median of several turns: what disturbs them will disturb a run, too."""
    work()
    started = clock()
    work()
    once = max(clock() - started, 1e-6)
    calls = max(1, int(budget / 8 / once))
    turns = []
    for _ in range(9):
        started = clock()
        for _ in range(calls):
            work()
        turns.append((clock() - started) / calls)
    return median(turns)


def _product(n: int, dtype: torch.dtype) -> Callable[[], object]:
    a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
    return lambda: torch.mm(a, b)


def _in_turn(n: int, operation: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
    """Return a call that reads and writes other tensors each time: as in a training step, little of what is large is in
    the processor's cache, and the memory has been written to before."""
    count = max(1, min(64, _UNCACHED // n))
    inputs = [torch.randn(n) for _ in range(count)]
    outputs = [operation(each) for each in inputs]
    turns = itertools.cycle(range(count))

    def call() -> None:
        index = next(turns)
        outputs[index] = operation(inputs[index])

    return call


def _sum(n: int) -> Callable[[], object]:
    other = torch.randn(n)
    return _in_turn(n, lambda a: a + other)


def _copy(n: int) -> Callable[[], object]:
    a, b = torch.randn(n), torch.empty(n)
    return lambda: b.copy_(a)


def _gelu(n: int) -> Callable[[], object]:
    return _in_turn(n, F.gelu)


def _attention_shares(
    curve: Curve, clock: Callable[[], float], dtype: torch.dtype, *, is_causal: bool
) -> dict[str, float]:
    """Return which share of a product's rate attention reaches by the pairs that its mask allows."""
    batch, heads, length, width = 8, 4, 256, 32
    q, k, v = (torch.randn(batch, heads, length, width, dtype=dtype, requires_grad=True) for _ in range(3))

    def forward() -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    def both() -> object:
        return torch.autograd.grad(forward().sum(), (q, k, v))

    flops = 4.0 * batch * heads * length * width * ((length + 1) / 2 if is_causal else length)
    rate = at(curve, flops)
    first = _usual(forward, clock)
    second = max(_usual(both, clock) - first, 1e-7)
    return {"forward": min(1.0, flops / first / rate), "backward": min(1.0, 2 * flops / second / rate)}
