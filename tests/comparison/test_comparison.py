"""Found records against each other: names are arms, seeds are pairs, and unlike runs are refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headtohead.cli import main
from headtohead.comparison.comparability import NotComparable, refuse_unlike
from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.tables.comparison_formats import comparison_table
from headtohead.records.record import Comparability, RunRecord, Status, StudyPosition, to_json

LOSSES = {"attention": [2.00, 2.05, 1.95, 2.02, 1.98], "mamba": [1.80, 1.84, 1.76, 1.80, 1.80]}


def against(records: list[RunRecord], name: str, **terms: Any) -> Comparison:
    return comparison_of(records, ComparisonSpec(name, **terms))


def record(name: str, seed: int, loss: float | None, status: Status = "finished") -> RunRecord:
    return RunRecord(
        id=f"{name}-{seed}",
        name=name,
        seed=seed,
        status=status,
        metrics={"validation": {}, "test": {} if loss is None else {"loss": loss}},
        baselines={"loss": 4.2},
        comparability=Comparability(tokenizer="char", evaluation=f"rows of {seed}", loss_normalisation="mean"),
    )


def records() -> list[RunRecord]:
    return [record(name, seed, loss) for name, losses in LOSSES.items() for seed, loss in enumerate(losses)]


def test_names_are_arms_and_seeds_are_pairs() -> None:
    (verdict,) = against(records(), "attention").verdicts
    assert (verdict.arm, verdict.baseline, verdict.kind, verdict.seeds) == (
        "mamba",
        "attention",
        "better",
        (0, 1, 2, 3, 4),
    )
    assert verdict.difference == pytest.approx(-0.2)
    assert verdict.reasons == ("no seeds were registered",)


def of_a_study(arm: str, seed: int, loss: float, trial: int | None = None, share: float = 1.0) -> RunRecord:
    made = record(f"{arm}-s{seed}", seed + 100, loss)
    made.id, made.place = f"{arm}-{seed}-{trial}-{share}", StudyPosition("recall", arm, seed, trial, share)
    return made


def test_runs_of_a_study_are_grouped_by_its_arms_and_paired_by_its_seeds() -> None:
    result = [of_a_study(arm, seed, loss) for arm, losses in LOSSES.items() for seed, loss in enumerate(losses)]
    (verdict,) = against(result, "attention").verdicts
    assert (verdict.arm, verdict.kind, verdict.seeds) == ("mamba", "better", (0, 1, 2, 3, 4))


def test_trials_and_points_on_a_part_of_the_budget_are_left_out_and_said() -> None:
    result = [of_a_study(arm, seed, loss) for arm, losses in LOSSES.items() for seed, loss in enumerate(losses)]
    others = [of_a_study("mamba", 0, 0.1, trial=3), of_a_study("mamba", 0, 3.0, share=0.5)]
    comparison = against([*result, *others], "attention")
    assert comparison.verdicts == against(result, "attention").verdicts
    assert comparison.remarks == ["left out: 1 run of a tuning and 1 run on part of the budget"]


def test_the_table_has_the_baseline_first_and_counts_what_has_no_outcome() -> None:
    result = [*records(), record("mamba", 5, None, "diverged"), record("mamba", 6, None, "out_of_memory")]
    console = Console(file=io.StringIO(), width=160, color_system=None)
    console.print(comparison_table(against(result, "mamba")))
    assert isinstance(console.file, io.StringIO)
    rows = [
        line.strip("│").split("│")
        for line in console.file.getvalue().splitlines()
        if line.startswith("│ ") and line[2] != " "
    ]
    assert [[cell.strip() for cell in row][:2] for row in rows] == [["mamba", "1.800"], ["attention", "2.000"]]
    assert [cell.strip() for cell in rows[0][-3:]] == ["6", "1", "1"]


def test_two_camps_are_both_named() -> None:
    pair = [record("mamba", 0, 2.0), record("lstm", 0, 2.0)]
    pair[1].comparability.tokenizer = "bytes"
    with pytest.raises(NotComparable, match=r"mamba \(seed 0\) \(char\) and lstm \(seed 0\) \(bytes\)"):
        refuse_unlike(pair)


def test_a_seed_may_have_evaluation_data_of_its_own() -> None:
    refuse_unlike(records())


def test_two_runs_of_one_seed_are_refused() -> None:
    with pytest.raises(NotComparable, match=r"mamba has two runs of seed 0"):
        against([*records(), record("mamba", 0, 1.0)], "attention")


def test_results_of_different_splits_are_not_compared() -> None:
    other = record("lstm", 0, None)
    other.metrics = {"validation": {"loss": 2.0}, "test": {}}
    with pytest.raises(NotComparable, match="loss on test, loss on validation"):
        against([*records(), other], "attention")


def test_an_unknown_or_lonely_arm_is_refused() -> None:
    with pytest.raises(NotComparable, match="choose among attention, mamba"):
        against(records(), "lstm")
    with pytest.raises(NotComparable, match="needs runs of another name"):
        against(records()[:5], "attention")


def test_the_command_prints_the_table_and_one_sentence_a_contrast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in records():
        folder = tmp_path / each.id
        folder.mkdir()
        (folder / "record.json").write_text(to_json(each), encoding="utf-8")
    assert main(["compare", str(tmp_path), "--against", "attention"]) == 0
    assert "mamba is better than attention on loss: a difference of -0.2" in capsys.readouterr().out
    assert main(["compare", str(tmp_path), "--against", "attention", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdicts"][0]["kind"] == "better"
    assert main(["compare", str(tmp_path), "--against", "lstm"]) == 2
    assert "no run has this name" in capsys.readouterr().err
