"""What was compared with the reference of each family; `make parity` writes the numbers into the file beside this."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("evidence.json")


@dataclass(frozen=True)
class Evidence:
    """The comparisons of one family with its reference, all in 32 bits."""

    models: int
    """Configurations compared with the same weights."""
    logits: float
    """The largest difference of a logit."""
    gradients: float
    """The largest difference of a gradient, relative to the largest entry of its tensor above 1."""
    changes: int
    """Single changes of a checkpoint's fields and tensors that were tried."""
    equal: int
    """Those of them after which both sides gave the same logits."""
    refused: int
    """Those that ours or the reference refused."""
    announced: int
    """Those after which the logits differ, as a line at load says beforehand."""

    def __str__(self) -> str:
        announced = f", {self.announced} different as a line at load says" if self.announced else ""
        return (
            f"compared: {self.models} models, logits within {self.logits:.1e}, gradients within {self.gradients:.1e}; "
            f"{self.changes} changed checkpoints: {self.equal} equal, {self.refused} refused{announced}"
        )


@cache
def evidence() -> dict[str, Evidence]:
    """Return what was compared, by model_type."""
    told = json.loads(FILE.read_text(encoding="utf-8"))
    return {kind: Evidence(**figures) for kind, figures in told.items()}
