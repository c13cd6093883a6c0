"""Found runs that all solve their task are told apart by how soon they did."""

from __future__ import annotations

from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.cli import main
from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.records.record import Comparability, Progress, RunRecord
from headtohead.records.run_folder import RunFolder

SOLVED_AT = {"lstm": 100, "gru": 300}

COSTS = {"lstm": 6e9, "gru": 1e9}
"""FLOPs of a step."""


def run(folder: Path, arm: str, seed: int, every: int = 50, *, is_measured: bool = True) -> RunRecord:
    """Solved at its arm's step, odd seeds one measurement later."""
    made = RunFolder.create_at(folder / f"{arm}-{seed}")
    for step in range(every, 601, every) if is_measured else ():
        solved = step >= SOLVED_AT[arm] + 50 * (seed % 2)
        made.log(Progress(step=step, flops=COSTS[arm] * step), {"validation/accuracy": 1.0 if solved else 0.5})
    record = RunRecord(id=made.id, name=arm, seed=seed, status="finished", baselines={"accuracy": 0.5})
    record.metrics = {"test": {"accuracy": 1.0 - 0.001 * (seed % 3)}}
    record.comparability = Comparability(tokenizer="bits", evaluation="e", loss_normalisation="mean")
    made.write_record(record)
    return record


def judged(records: list[RunRecord]) -> Comparison:
    return comparison_of(records, ComparisonSpec("gru", metric="accuracy"))


def test_of_found_runs_that_all_solve_it_the_sooner_is_better(tmp_path: Path) -> None:
    (verdict,) = judged([run(tmp_path, arm, seed) for arm in SOLVED_AT for seed in range(5)]).verdicts
    assert (verdict.method, verdict.kind, verdict.solved) == ("time to solve", "better", (5, 5))
    assert verdict.difference == -200.0


def test_where_flops_were_equal_the_sooner_is_who_needs_fewer_of_them(tmp_path: Path) -> None:
    result = [run(tmp_path, arm, seed) for arm in SOLVED_AT for seed in range(5)]
    for record in result:
        record.budget = {"kind": "equal_flops"}
    (verdict,) = judged(result).verdicts
    assert (verdict.kind, verdict.difference) == ("worse", 3e11)
    assert "in the median 3e+11 FLOPs later" in verdict.sentence


def test_compare_tells_of_them_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arm in SOLVED_AT:
        for seed in range(5):
            run(tmp_path, arm, seed)
    assert main(["compare", str(tmp_path), "--against", "gru", "--metric", "accuracy"]) == 0
    assert "in the median 200 steps sooner" in " ".join(capsys.readouterr().out.split())


def test_a_run_that_left_no_curve_is_not_taken_for_one_that_never_solved_it(tmp_path: Path) -> None:
    result = [run(tmp_path, arm, seed, is_measured=arm == "gru" or seed > 0) for arm in SOLVED_AT for seed in range(5)]
    (verdict,) = judged(result).verdicts
    assert (verdict.method, verdict.kind) == ("solve rates", "undecided")


def test_runs_that_were_measured_at_other_steps_are_said_to_be(tmp_path: Path) -> None:
    result = [run(tmp_path, arm, seed, every=50 if arm == "gru" else 100) for arm in SOLVED_AT for seed in range(5)]
    message = "as coarse as the validations, which differ between arms: first gru after 50 steps, lstm after 100 steps"
    assert any(message in remark for remark in judged(result).remarks)


def test_the_curves_of_another_program_tell_times_too(tmp_path: Path) -> None:
    rows = [
        f"{arm},{seed},{step},{1.0 if step >= at + 50 * (seed % 2) else 0.5}"
        for arm, at in SOLVED_AT.items()
        for seed in range(5)
        for step in range(50, 601, 50)
    ]
    (tmp_path / "theirs.csv").write_text("\n".join(["arm,seed,step,accuracy", *rows]), encoding="utf-8")
    result = h2h.compare(
        [tmp_path / "theirs.csv"], metric="accuracy", against="gru", solved_at=0.9, columns={"step": "step"}
    )
    (verdict,) = result.verdicts
    assert (verdict.method, verdict.kind, verdict.difference) == ("time to solve", "better", -200.0)
