"""The energy of whole NVIDIA boards, by the counters of the driver's library NVML, which comes with every driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from headtohead.training.energy.energy_counter import EnergyCounter, UnmeasuredError

_LIBRARY = "libnvidia-ml.so.1"
_MILLI = 1e3


class NvmlBoards(EnergyCounter):
    """The boards of these UUIDs, memory and whatever else runs on them included; the rest of the machine is not."""

    def __init__(self, uuids: Sequence[str], library: ctypes.CDLL | None = None) -> None:
        """Raise UnmeasuredError unless the counter of every board can be read; `library` is NVML, or acts like it."""
        self._library = _loaded() if library is None else library
        _check(self._library, self._library.nvmlInit_v2(), "the driver")
        self._boards = [(self._handle(uuid), uuid) for uuid in uuids]
        self._values: list[int] | None = self._totals()
        self.source = f"NVML, {len(uuids)} GPU board{'' if len(uuids) == 1 else 's'}"

    def read(self) -> float | None:
        before, self._values = self._values, None  # after one that fails, the next does not know since when it counts
        try:
            self._values = self._totals()
        except UnmeasuredError:
            return None
        if before is None:
            return None
        drawn = [now - then for now, then in zip(self._values, before, strict=True)]
        return None if min(drawn) < 0 else sum(drawn) / _MILLI  # the driver was reloaded

    def _handle(self, uuid: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        code = self._library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
        _check(self._library, code, f"the GPU {uuid}")
        return handle

    def _totals(self) -> list[int]:
        """Return the millijoules of each board since the driver was loaded."""
        totals: list[int] = []
        for handle, uuid in self._boards:
            total = ctypes.c_ulonglong()
            code = self._library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(total))
            _check(self._library, code, f"the energy of the GPU {uuid}")
            totals.append(total.value)
        return totals


def _loaded() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise UnmeasuredError(f"the driver's library {_LIBRARY} cannot be loaded: {error}") from None
    library.nvmlErrorString.restype = ctypes.c_char_p
    return library


def _check(library: ctypes.CDLL, code: int, what: str) -> None:
    """NVML's functions return 0 where they succeed, and the number of an error otherwise."""
    if code != 0:
        raise UnmeasuredError(f"NVML does not report {what}: {library.nvmlErrorString(code).decode()}")
