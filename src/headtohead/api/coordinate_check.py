"""Check from Python whether training changes activations equally at every width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.api.error_translation import python_errors
from headtohead.api.progress import progress_of_steps
from headtohead.api.result import Result, upgraded
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.config.trust import trusting
from headtohead.diagnostics.coordinate_plan import CoordinatePlan, Heads
from headtohead.diagnostics.coordinate_results import CoordinateResults, draw_coordinates
from headtohead.ranges import Count, Every

if TYPE_CHECKING:
    from headtohead.api.drawn_figure import DrawnFigure


class CheckedCoordinates(Result, CoordinateResults):
    """The activations of a model, and what training changes in them, a row for each layer."""

    @property
    def title(self) -> str:
        words = "changes equally" if self.is_flat else "does not change equally"
        return f"what training does to activations {words} at widths {', '.join(map(str, self.widths))}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [{"layer": layer, **self._exponents(layer), "verdict": self.verdict(layer)} for layer in self.layers]

    def _exponents(self, layer: str) -> Mapping[str, float | None]:
        start, end = self.exponent(layer, 0, "size"), self.exponent(layer, self.last_step, "change")
        return {
            "exponent_of_size": None if start is None else start.value,
            "exponent_of_change": None if end is None else end.value,
        }

    def plot(self) -> DrawnFigure:
        """Return a figure of sizes and changes over the width."""
        from headtohead.api.drawn_figure import DrawnFigure

        return draw_coordinates(self, DrawnFigure)


@python_errors
def coordinates(
    overrides: Sequence[str] = (),
    *,
    widths: Sequence[int] = (32, 64, 128, 256),
    steps: Every = 5,
    seeds: Count = 3,
    heads: Heads = "wider",
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
) -> CheckedCoordinates:
    """Check whether training changes activations equally at every width: `coordinates(["parametrisation=mup"])`.

    Each width takes so many steps on one small batch, from so many seeds; `heads` says what attention's heads become in
    wider models, wider or more. `config_dir` and `trust` are as in `compose`.
    """
    plan = CoordinatePlan(list(overrides), list(widths), steps, seeds, heads, config_dir)
    with trusting(trust), progress_of_steps(len(set(widths)) * seeds) as show:
        for config in plan.configs.values():
            check_data_paths(config)
        from headtohead.diagnostics.activation_sizes import measure_activations  # torch waits for what is refused above

        done = 0

        def report(width: int, seed: int) -> None:
            nonlocal done
            done += 1
            show(done, f"width {width}, seed {seed}")

        return upgraded(CheckedCoordinates, measure_activations(plan, report))
