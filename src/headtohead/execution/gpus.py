"""The GPUs of this machine, and who of several workers has which."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.run_config import RunConfig
from headtohead.files import leases
from headtohead.files.leases import Lease, Leases


def gpus() -> list[str]:
    """NVIDIA's of this machine that this process may use, as CUDA numbers them; asked without waking them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]


@dataclass(frozen=True)
class GpuShare:
    """The GPUs that one run has to itself."""

    names: tuple[str, ...] | None = None
    """The names of the GPUs; None leaves the run those that its worker may use."""
    leases: tuple[Lease, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        return {} if self.names is None else {"CUDA_VISIBLE_DEVICES": ",".join(self.names)}

    def release(self) -> None:
        for lease in self.leases:
            lease.release()


class GpuPool:
    """Runs take as many GPUs as they need, out of those that the workers of one launcher share."""

    def __init__(self, folder: Path, shared_by: int, names: list[str] | None = None) -> None:
        self._leases, self._shared_by = Leases(folder / "leases" / "gpus"), shared_by
        self._names = gpus() if names is None else names

    def take(self, config: Mapping[str, object]) -> GpuShare | None:
        """Return the GPUs of a run, or None while others have too many of them; one GPU or none is not divided."""
        run = RunConfig(config)
        if len(self._names) < 2 or run.accelerator == "cpu":
            return GpuShare()
        num_required = min(run.devices, len(self._names))
        free = [name for name in self._names if self._leases.holder(self._lease_of(name)) is None]
        taken: dict[str, Lease] = {}
        for name in free if len(free) >= num_required else []:
            if len(taken) < num_required and (lease := self._leases.take(self._lease_of(name))) is not None:
                taken[name] = lease
        share = GpuShare(tuple(taken), tuple(taken.values()))
        if len(taken) < num_required:
            share.release()
            return None
        return share

    def _lease_of(self, name: str) -> str:
        """Return the name of a GPU's lease: launchers of several machines may have the same number, and names of parts
        of a GPU hold slashes."""
        return f"{leases.system.this_process().machine}-{self._shared_by}-{name.replace('/', '_')}"
