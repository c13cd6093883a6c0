"""The sooner of two arms that solve their task is the better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead.comparison.contrasts import Verdict
from headtohead.records.record import Progress
from headtohead.records.run_folder import RunFolder
from headtohead.studies.planning import registration
from headtohead.studies.planning.registration import prepare
from headtohead.studies.results.study_report import report_of
from studies.small_studies import plan_without_models, write_run

STEPS = {"a": 300, "b": 100}


@pytest.fixture(autouse=True)
def ids_of_plain_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "run_id", lambda config: str(config["arm"]))


def solved(folder: Path, **changes: Any) -> Verdict:
    """Both arms solve it with every seed, b 200 steps before a."""
    plan = plan_without_models(folder, seeds=5, solved_at=0.1, **changes)
    prepare(plan, retry=False)
    for run in plan.runs:
        write_run(plan.run_folder(run), value=0.01, metrics={"test_4x": {"loss": 0.01}})
        for step in range(50, 401, 50):
            loss = 0.05 if step >= STEPS[run.arm] + 50 * (run.seed % 2) else 2.0
            RunFolder(plan.run_folder(run)).log(Progress(step=step), {"validation/loss": loss})
    return report_of(plan).verdicts[0]


def test_of_arms_that_all_solve_it_the_sooner_is_better(tmp_path: Path) -> None:
    verdict = solved(tmp_path)
    assert (verdict.method, verdict.kind, verdict.difference) == ("time to solve", "better", -200.0)
    assert verdict.solved == (5, 5) and "in the median 200 steps sooner" in verdict.sentence


def test_longer_rows_are_measured_at_the_end_and_tell_no_times(tmp_path: Path) -> None:
    verdict = solved(tmp_path, metric="test_4x/loss", lengths=[4])
    assert (verdict.method, verdict.kind, verdict.solved) == ("solve rates", "undecided", (5, 5))
