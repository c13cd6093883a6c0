"""Plans of runs on devices, and queries over records, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headtohead.api.configurations import Configured, configuration
from headtohead.api.spoken_errors import speaks_python
from headtohead.records.run_query import runs as query_runs

if TYPE_CHECKING:
    from headtohead.estimates.plan import Plan

runs = speaks_python(query_runs)


@speaks_python
def plan(config: Configured, on: str, *, price: float | None = None, tokens: float | None = None) -> Plan:
    """Return what fits on some devices, how fast, how long and for how much: `plan(config, "h100x8", price=2.5).best`.

    `on` names devices as `h2h plan --devices` lists them, or "cpu", whose rates are measured. `price` is of one device
    for an hour; `tokens` replaces the run's own length. `.layouts` has every layout, with its memory, step and reason.
    """
    from headtohead.estimates.plan import plan as plan_run

    return plan_run(configuration(config), on, price=price, tokens=tokens)
