"""All comparisons with peers, measured one after another on one thread."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from itertools import chain

import torch
from torch.profiler import ProfilerActivity, profile

from headtohead.components.processor import cpu_name
from headtohead.diagnostics.peers import layer_peers, training_peers, writing_peers
from headtohead.diagnostics.peers.allocation_counter import AllocationCounter
from headtohead.diagnostics.peers.alternation import Quartiles, Work, alternate
from headtohead.diagnostics.peers.comparison_kinds import Pair, PeerComparison
from headtohead.diagnostics.peers.speed_rows import SpeedRow
from headtohead.errors import UsageError
from headtohead.training.parallel.devices import threads

_SECONDS = 60.0
"""No comparison goes on for longer, whatever the rounds."""
_MOST_KERNELS = 5


def all_comparisons() -> list[PeerComparison]:
    """Return every comparison, in the order of the page."""
    rooms = (training_peers, writing_peers, layer_peers)
    return list(chain.from_iterable(room.comparisons() for room in rooms))


def chosen_comparisons(groups: Collection[str]) -> list[PeerComparison]:
    """Return the comparisons of these groups, all without any; UsageError for a group that there is not."""
    known = list(dict.fromkeys(one.group for one in all_comparisons()))
    if unknown := [group for group in groups if group not in known]:
        raise UsageError(f"--peers {unknown[0]} is no group of comparisons: choose among {', '.join(known)}")
    return [one for one in all_comparisons() if not groups or one.group in groups]


def measure_peers(
    comparisons: Collection[PeerComparison], *, rounds: int, report: Callable[[str], None]
) -> Iterator[SpeedRow]:
    """Yield a row for each comparison whose peer is installed."""
    for one in comparisons:
        if find_spec(one.package) is None:
            report(f"{one.work}: {one.package} is not installed (pip install {one.package}), left out")
            continue
        report(one.work)
        torch.manual_seed(0)
        with threads(1):
            pair = one.make()
            yield _peak(one, pair) if one.measures == "memory" else _time(one, pair, rounds)


def _time(one: PeerComparison, pair: Pair, rounds: int) -> SpeedRow:
    times = alternate(pair.ours, pair.theirs, rounds=rounds, seconds=_SECONDS)
    ours, theirs = (1e3 * statistics.median(side) for side in (times.ours, times.theirs))
    row = SpeedRow(
        work=one.work,
        measured=times.ratios,
        target=one.target,
        details=f"{ours:.3g} ms; {one.peer} {theirs:.3g} ms",
        machine=machine(),
    )
    if row.is_met:
        return row
    return SpeedRow(**{**vars(row), "missing": ". ".join(filter(None, (one.remark, kernel_shares(pair.ours))))})


def _peak(one: PeerComparison, pair: Pair) -> SpeedRow:
    ours, theirs = (peak_bytes(work) for work in (pair.ours, pair.theirs))
    return SpeedRow(
        work=one.work,
        measured=Quartiles.of([ours / theirs]),
        target=one.target,
        better="lower",
        details=f"{ours / 2**20:.0f} MB; {one.peer} {theirs / 2**20:.0f} MB",
        missing="" if ours / theirs <= one.target else one.remark,
        machine=machine(),
    )


def peak_bytes(work: Work) -> int:
    """Return the most memory that the tensors of some work hold at once, after one run to warm up."""
    work()
    with AllocationCounter() as counter:
        work()
    peak: int = counter.peak
    return peak


def kernel_shares(work: Work) -> str:
    """Return which kernels the time goes into, the largest first."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    kernels = sorted(profiler.key_averages(), key=lambda kernel: -kernel.self_cpu_time_total)
    total = sum(kernel.self_cpu_time_total for kernel in kernels) or 1.0
    shares = (
        f"{kernel.key.removeprefix('aten::')} {100 * kernel.self_cpu_time_total / total:.0f} %"
        for kernel in kernels[:_MOST_KERNELS]
    )
    return "Time: " + ", ".join(shares)


def machine() -> str:
    """Return the processor, and which of its units for bf16 it shows."""
    return f"{cpu_name()}, one thread, torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"
