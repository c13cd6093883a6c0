"""Plan runs on other devices, and find those that there are, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headtohead.api.configurations import Configured, configuration
from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.estimates.plan import Plan
from headtohead.estimates.plan import plan as plan_run
from headtohead.records import run_query


class PlannedRun(Result, Plan):
    """A run on some devices, a row for each layout."""

    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        best = self.best
        fastest = "no layout fits" if best is None else f"fastest: {' '.join(best.overrides) or 'as it is'}"
        return f"{self.parameters:,} parameters on {self.devices} x {self.device} ({self.source}); {fastest}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "layout": " ".join(each.overrides),
                "fits": each.fits,
                "rows": each.rows,
                "largest_rows": each.largest_rows,
                "tokens_per_second": each.tokens_per_second,
                "hours": each.hours,
                "price": each.price,
                "reason": each.reason or "",
            }
            for each in self.layouts
        ]


@speaks_python
def plan(config: Configured, on: str, *, price: float | None = None, tokens: float | None = None) -> PlannedRun:
    """Return what fits on some devices, how fast, how long and for how much: `plan(config, "h100x8", price=2.5).best`.

    `on` names devices as `h2h plan --devices` lists them, or "cpu", whose rates are measured. `price` is of one device
    for an hour; `tokens` replaces the run's own length. `.layouts` has every layout, with its memory, step and reason.
    """
    return upgraded(PlannedRun, plan_run(configuration(config), on, price=price, tokens=tokens))


runs = speaks_python(run_query.runs)
