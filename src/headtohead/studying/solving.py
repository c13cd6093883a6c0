"""How soon the runs of a study had solved their task: by the metric on validation data, as they went along."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from headtohead.comparing.verdict import Times, Values
from headtohead.studying.cells import Cell
from headtohead.studying.planning import Plan
from headtohead.tracking.metrics import Curve
from headtohead.tracking.record import RunRecord
from headtohead.tracking.stages import TEST
from headtohead.tracking.store import RunFolder


def times_to_solve(plan: Plan, records: Mapping[Cell, RunRecord | None]) -> Times | None:
    """None where the metric is of longer rows, which are measured at the end alone."""
    study = plan.study
    stage, name = study.stage_and_name
    if stage not in (TEST, "validation"):
        return None
    sign = 1 if study.direction == "max" else -1
    ended = [cell for cell, record in records.items() if record is not None and record.status == "finished"]

    @cache
    def curve_of(cell: Cell) -> Curve | None:
        return RunFolder(plan.run_folder(cell)).metrics({f"validation/{name}"}).get(f"validation/{name}")

    def time_of(cell: Cell, at: float) -> float | None:
        curve = curve_of(cell)
        known = () if curve is None else zip(curve.step, curve.value, strict=True)
        return next((float(step) for step, value in known if sign * (value - at) >= 0), None)

    def times(at: float) -> Values:
        return {arm: {cell.seed: time_of(cell, at) for cell in ended if cell.arm == arm} for arm in study.arms}

    return times
