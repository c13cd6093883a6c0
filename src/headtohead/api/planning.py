"""Plan runs on other devices, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headtohead.api.configurations import Configured, configuration
from headtohead.api.error_translation import python_errors
from headtohead.api.result import Result, upgraded
from headtohead.config.trust import trusting
from headtohead.estimates.named_devices import parsed_devices
from headtohead.estimates.plan import Plan
from headtohead.estimates.plan import plan as plan_run
from headtohead.ranges import Positive, Tokens


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


@python_errors
def plan(
    config: Configured = (),
    on: str = "",
    *,
    price: Positive | None = None,
    tokens: Tokens | None = None,
    config_dir: str | Path | None = None,
    from_run: str | Path | None = None,
    trust: Sequence[str] = (),
) -> PlannedRun:
    """Return what fits on some devices, how fast, how long and for how much: `plan(config, "h100x8", price=2.5).best`.

    `on` names devices as `h2h plan --devices` lists them, or "cpu", whose rates are measured. `price` is of one device
    for an hour; `tokens` replaces the run's own length. `.layouts` has every layout, with its memory, step and reason.
    `config_dir`, `from_run` and `trust` are as in `compose`: `plan(on="h100", from_run=run)`;
    `study(..., run=False).plan_on("h100x8")` plans every arm of a study.
    """
    parsed_devices(on)
    with trusting(trust):
        composed = configuration(config, "train", config_dir, from_run)
        return upgraded(PlannedRun, plan_run(composed, on, price=price, tokens=tokens))
