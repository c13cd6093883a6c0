"""The memory that this process may take (the machine's, a container's under cgroup v1 and v2, and the shell's limit),
and the bytes that weights, gradients and optimizer state take: what an optimizer keeps of a weight is known from its
configuration alone."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch


@dataclass(frozen=True)
class OptimizerStateSize:
    """The numbers that an optimizer keeps of a weight: the fewest, and the most where weights differ."""

    least: int
    most: int
    updating: int = 0
    """Numbers of each weight that exist for a moment more, while an optimizer without a fused kernel updates it."""
    has_bases: bool = False
    """Whether dimensions have matrices of their own, whose size does not follow from that of the weight."""


_STATE_SIZES = {
    "adamw": OptimizerStateSize(2, 2),
    "adam": OptimizerStateSize(2, 2),
    "ademamix": OptimizerStateSize(3, 3, updating=2),
    "schedule_free": OptimizerStateSize(2, 2, updating=2),
    "soap": OptimizerStateSize(2, 9, has_bases=True),  # the most: of matrices up to four times as long as wide
    "lion": OptimizerStateSize(1, 1, updating=1),
    "muon": OptimizerStateSize(1, 2),  # of hidden matrices, and of all else
}


def optimizer_state_size(optimizer: Mapping[str, object]) -> OptimizerStateSize:
    """Return what an optimizer keeps; one that is not listed keeps a momentum if it has one."""
    momentum = 1 if optimizer.get("momentum") else 0
    name = str(optimizer["_target_"]).rpartition(".")[2].lower()
    return _STATE_SIZES.get(name, OptimizerStateSize(momentum, momentum))


def basis_numbers(optimizer: Mapping[str, object], shape: Sequence[int]) -> int:
    """Return the numbers that an optimizer keeps of the dimensions of a weight: a covariance and a basis of each."""
    longest = optimizer.get("max_basis")
    if not optimizer_state_size(optimizer).has_bases or len(shape) < 2 or not isinstance(longest, int):
        return 0
    return sum(2 * size**2 for size in shape if size <= longest)


_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_FILES = {2: ("memory.max", "memory.current"), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes")}
"""The files by the version of cgroups: the limit, and what all processes under it hold now."""


def memory_limit(device: torch.device) -> int:
    """Return the most bytes that there can be for this process, whatever others hold now."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    whole = psutil.virtual_memory().total + psutil.swap_memory().total
    return min(whole, *(limit for limit, _ in _limits()))


def free_memory(device: torch.device) -> int:
    """Return the bytes that this process may still take now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(psutil.virtual_memory().available, *(limit - used for limit, used in _limits()))


def _limits() -> list[tuple[int, int]]:
    """Return the allowed and the used bytes of every limit; few users limit the address space."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    own = 2**63 if soft == resource.RLIM_INFINITY else soft
    return [(own, psutil.Process().memory_info().vms if own < 2**63 else 0), *_of_cgroups()]


def _of_cgroups() -> Iterator[tuple[int, int]]:
    """Yield the group of this process and all above it; within a container the topmost is the container's."""
    for line in _OWN_CGROUPS.read_text().splitlines() if _OWN_CGROUPS.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS / "memory" if controllers else _CGROUPS
        limit, used = _FILES[1 if controllers else 2]
        own = Path(path.lstrip("/"))
        for group in (root / own, *(root / parent for parent in own.parents)):
            if (limit_here := _number(group / limit)) is not None:
                yield limit_here, _number(group / used) or 0


def _number(file: Path) -> int | None:
    """Return None where there is no such file, and where it says "max"."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


_RESET_PEAK = "5"
"""Written to clear_refs, this resets the kernel's high-water mark (proc(5))."""


class PeakMemory:
    """Bytes, from its making on. Where the kernel keeps no peak for us, the largest of the sizes seen."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._largest = 0
        self._kernel_knows = False
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
                self._kernel_knows = True

    def read(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        seen = _high_water_mark() if self._kernel_knows else psutil.Process(os.getpid()).memory_info().rss
        self._largest = max(self._largest, seen)
        return self._largest


def _high_water_mark() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return psutil.Process(os.getpid()).memory_info().rss


@dataclass(frozen=True)
class TrainedBytes:
    """Bytes of one device that do not depend on what it reads."""

    weights: float
    """An average of them included."""
    gradients: float
    optimizer: float
    updating: float
    """More for a moment, while the weights are updated: a copy by which a logged step measures how far they move."""
    moved: float
    """Read or written by an update."""

    @property
    def total(self) -> float:
        """Return what stays from step to step, with the gradients."""
        return self.weights + self.gradients + self.optimizer


def trained_bytes(
    weights: float,
    trained: float,
    optimizer: Mapping[str, object],
    weight_averaging: float | None,
    bases: float = 0.0,
    updating: float = 0.0,
) -> TrainedBytes:
    """Return the bytes by those of the weights on the device, of those of them that are trained, of their bases, and of
    what exists while they are updated."""
    state = optimizer_state_size(optimizer)
    averaged = trained if weight_averaging is not None else 0.0
    return TrainedBytes(
        weights=weights + averaged,
        gradients=trained,
        optimizer=state.least * trained + bases,
        updating=trained * (state.updating + 1) + updating,
        moved=trained * (3 + 2 * state.least) + 3 * averaged + 2 * bases,
    )
