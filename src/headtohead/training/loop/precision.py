"""Choose the number formats in which a run computes, and what a device really makes of the setting."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch

Unmixed = Literal["32-true", "64-true", "bf16-true"]
PrecisionName = Literal["32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true"]


@dataclass(frozen=True)
class Precision:
    """A `mixed` format keeps the weights in float32 and computes matrix products in 16 bits."""

    name: PrecisionName = "32-true"
    """The bits of a number: 64-true, 32-true, bf16-true for everything; bf16-mixed, 16-mixed for matrix products over
    float32 weights."""

    def on(self, device_type: str) -> Precision:
        """Return what this precision becomes on the device: a CPU has no 16-mixed, and Lightning silently takes
        bf16-mixed."""
        return Precision("bf16-mixed") if self.name == "16-mixed" and device_type == "cpu" else self

    @property
    def dtype(self) -> torch.dtype:
        """Return the number format of matrix products."""
        kinds = {"64": torch.float64, "32": torch.float32, "bf16": torch.bfloat16, "16": torch.float16}
        return kinds[self.name.partition("-")[0]]

    @property
    def of_weights(self) -> torch.dtype:
        """The format that the weights themselves have."""
        return self.dtype if self.name.endswith("true") else torch.float32

    def autocast(self, device_type: str) -> AbstractContextManager[object]:
        """Return the autocast context in which a mixed format computes products in 16 bits; other formats need none.

        Like Lightning's it holds no copies of weights, which would outlive the blocks that are recomputed or sharded.
        """
        is_mixed = self.name.endswith("mixed")
        return torch.autocast(device_type, self.dtype, cache_enabled=False) if is_mixed else nullcontext()

    @property
    def bytes_per_element(self) -> int:
        """Bytes of one activation."""
        return {"32": 4, "64": 8}.get(self.name[:2], 2)


def precision_in_use(config: Mapping[str, Any]) -> Unmixed:
    """Return the precision in which a finished run is used: 64 bits where it was trained so, else 32."""
    return "64-true" if str(config["precision"]["name"]).startswith("64") else "32-true"
