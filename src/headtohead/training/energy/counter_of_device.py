"""Choose the counter of the device that trains."""

from __future__ import annotations

import torch

from headtohead.training.energy.energy_counter import EnergyCounter, NoCounter, UnmeasuredError
from headtohead.training.energy.nvml_boards import NvmlBoards
from headtohead.training.energy.rapl_packages import RaplPackages


def counter_of(device: torch.device, *, count: int = 1, num_nodes: int = 1) -> EnergyCounter:
    """Return what counts the energy of `count` devices of this machine, all of them read by one process; where nothing
    does, its `source` says why."""
    if num_nodes > 1:
        return NoCounter(f"a process reads the counters of its own machine, and this run has {num_nodes}")
    try:
        if device.type != "cuda":
            return RaplPackages()
        return NvmlBoards([str(torch.cuda.get_device_properties(index).uuid) for index in range(count)])
    except UnmeasuredError as unmeasured:
        return NoCounter(str(unmeasured))
