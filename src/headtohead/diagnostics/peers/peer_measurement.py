"""All comparisons with peers, measured one after another on one thread: lines of docs/speed.md, and the table of `h2h
bench --peers`, which say what was measured, what was aimed at, and on which machine; one JSON file a benchmark."""

from __future__ import annotations

import json
import statistics
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headtohead.components.processor import cpu_name
from headtohead.diagnostics.peers import layer_peers, training_peers, writing_peers
from headtohead.diagnostics.peers.alternation import Pair, PeerComparison, Quartiles, Work, alternate
from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import read_json
from headtohead.training.parallel.devices import threads


class AllocationCounter(TorchDispatchMode):
    """It counts the kernels called inside it, the bytes of new memory that they return, and the most bytes held at
    once. Memory that a kernel takes and frees by itself is not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels = self.allocated = self.held = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        before = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        made = [s for tensor in _tensors(result) if (s := tensor.untyped_storage())._cdata not in before]
        for storage in made:
            self._take(storage)
        self.kernels += bool(made) or func._schema.is_mutable  # type: ignore[attr-defined]
        return result

    def _take(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.allocated += size
        self.held += size
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.held -= size


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    yield from (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


_SECONDS = 60.0
"""No comparison takes longer, whatever the rounds."""
_MOST_KERNELS = 5


def all_comparisons() -> list[PeerComparison]:
    """Return every comparison, in the order of the page."""
    rooms = (training_peers, writing_peers, layer_peers)
    return list(chain.from_iterable(room.comparisons() for room in rooms))


def chosen_comparisons(groups: Collection[str]) -> list[PeerComparison]:
    """Return the comparisons of these groups, all without any; UsageError for a group that there is not."""
    known = list(dict.fromkeys(one.group for one in all_comparisons()))
    if unknown := [group for group in groups if group not in known]:
        raise UsageError(f"--peers {unknown[0]} is not a group of comparisons: choose among {', '.join(known)}")
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
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:  # without which torch 2.11 warns
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


ROWS_FOLDER = Path("outputs/bench")
SUFFIX = ".rows.json"


@dataclass(frozen=True)
class SpeedRow:
    """One line: a figure in some unit, with its target."""

    work: str
    measured: Quartiles
    target: float
    unit: str = "x"
    """`x` for a ratio to the peer, else `s`, `MB` or `%`."""
    better: Literal["higher", "lower"] = "higher"
    details: str = ""
    """The figures behind a ratio: ours 12.1 ms, nanoGPT's model 15.0 ms."""
    missing: str = ""
    """The kernels that the time goes into where the target is missed."""
    machine: str = ""

    @property
    def is_met(self) -> bool:
        """Return whether the median reaches the target."""
        median = self.measured.median
        return median >= self.target if self.better == "higher" else median <= self.target


def rows_of(path: Path) -> list[SpeedRow]:
    """Return the rows that a benchmark has written; none where it has not run."""
    if not path.exists():
        return []
    stored: list[dict[str, Any]] = read_json(path)
    return [SpeedRow(**{**row, "measured": Quartiles(**row["measured"])}) for row in stored]


def save_rows(name: str, rows: Iterable[SpeedRow], folder: Path = ROWS_FOLDER) -> Path:
    """Write the rows of a benchmark, in place of its earlier ones for the same work."""
    path = folder / f"{name}{SUFFIX}"
    by_work = {row.work: row for row in (*rows_of(path), *rows)}
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps([asdict(row) for row in by_work.values()], indent=1))
    return path


def peer_table(rows: Iterable[SpeedRow]) -> Table:
    """Return one line for each comparison: the ratio with its quartiles, the target, and the figures behind it."""
    table = Table("work", "ratio", "quartiles", "target", "reached", "ours; the peer")
    for row in rows:
        sign = ">=" if row.better == "higher" else "<="
        spread = f"{row.measured.lower:.2f} to {row.measured.upper:.2f}"
        reached = "yes" if row.is_met else "no"
        table.add_row(row.work, f"{row.measured.median:.2f}", spread, f"{sign} {row.target:.2f}", reached, row.details)
    return table
