"""Plan runs on other devices, and find those that there are, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headtohead.api.configurations import Configured, configuration
from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.estimates.plan import Plan
from headtohead.estimates.plan import plan as plan_run
from headtohead.records import run_query
from headtohead.records.run_summary import RunSummary


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


class FoundRuns(list[RunSummary], Result):  # type: ignore[misc]  # compared and hashed as a list
    """A list of runs that shows itself as a table, a row for each."""

    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        return f"{len(self)} run{'' if len(self) == 1 else 's'}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "name": run.name,
                "seed": run.seed,
                "status": run.status,
                "metric": f"{run.stage}/{run.metric}" if run.metric else None,
                "value": run.value,
                "parameters": run.costs.get("parameters"),
                "steps": run.progress.get("step"),
                "study": run.study,
                "path": run.path,
            }
            for run in self
        ]


@speaks_python
def runs(
    paths: str | Path | Sequence[str | Path] = "outputs", *, where: str = "", sort: str = "newest", limit: int = 0
) -> FoundRuns:
    """Return the runs below folders in short: `runs("outputs", where="d_model=64 status=finished", sort="test/loss")`.

    `where` is what `h2h list runs --where` takes: FIELD=VALUE with = != < <= > >= or ~, or words that a run's name,
    arm, group, study, status, notes or tags contain; - in front turns one round. `sort` is newest, oldest, name,
    result, status, or any field, with - in front from the largest down; `limit` keeps the first of them, 0 all.
    `.results["test/loss"]`, `.config["model.d_model"]` and `.progress["step"]` have the numbers of a run; `load_run`
    of its `.path` opens it. Records that have not changed since the last call are not read again.
    """
    return FoundRuns(run_query.runs(paths, where=where, sort=sort, limit=limit))
