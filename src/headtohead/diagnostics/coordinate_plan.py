"""The runs of a coordinate check are composed before what trains them is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError

Heads = Literal["wider", "more"]


@dataclass(frozen=True)
class CoordinatePlan:
    """Overrides of a run, and the widths that it is given instead of its own."""

    overrides: Sequence[str]
    widths: Sequence[int]
    num_steps: int = 5
    num_seeds: int = 3
    heads: Heads = "wider"
    """The rule for attention's heads as the width grows."""
    config_dir: str | Path | None = None

    def __post_init__(self) -> None:
        if len(set(self.widths)) < 2 or min(self.widths) < 1:
            raise ConfigurationError(
                f"--widths {','.join(map(str, self.widths))} cannot show growth: give two or more widths, such as "
                "32,64,128,256"
            )
        if self.num_steps < 1 or self.num_seeds < 1:
            name = "--steps" if self.num_steps < 1 else "--seeds"
            raise ConfigurationError(f"{name} must be at least 1: what a step changes is what is measured")

    @cached_property
    def configs(self) -> dict[int, dict[str, Any]]:
        """Return the run's configuration at each width, checked like any other."""
        own = compose_checked("train", [*self.overrides], self.config_dir)
        return {width: self._at(width, own["model"]) for width in sorted(set(self.widths))}

    def _at(self, width: int, model: dict[str, Any]) -> dict[str, Any]:
        wider = [f"model.d_model={width}"]
        if self.heads == "more" and model.get("num_heads"):
            head = model["d_model"] // model["num_heads"]
            if width % head:
                raise ConfigurationError(
                    f"--heads more has heads of width {head}, which does not divide width {width}: give multiples of "
                    f"{head}"
                )
            wider.append(f"model.num_heads={width // head}")
        return compose_checked("train", [*self.overrides, *wider], self.config_dir)
