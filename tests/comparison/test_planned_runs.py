"""A study's folder with the runs of two questions: those of the question that was started last are compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.planned_runs import PLANNED_RUNS, read_planned_runs
from headtohead.comparison.task_comparison import compared
from headtohead.records.record import RunRecord, StudyPosition

LOSSES = {"old": {"a": 3.0, "b": 3.5}, "new": {"a": 2.0, "b": 1.0}}


@pytest.fixture
def records(tmp_path: Path) -> list[RunRecord]:
    made = []
    for question, losses in LOSSES.items():
        for seed in range(3):
            for arm, loss in losses.items():
                name = f"{question}-{arm}{seed}"
                position = StudyPosition(study="norms", arm=arm, seed=seed)
                results = {"test": {"loss": loss + 0.01 * seed}}
                run = RunRecord(id=name, status="finished", place=position, metrics=results, baselines={"loss": 4.0})
                run.timing.started = f"2026-01-0{1 if question == 'old' else 2}T00:00:00+00:00"
                run.path = tmp_path / "norms" / "runs" / name
                run.path.mkdir(parents=True)
                made.append(run)
    return made


def listed(records: list[RunRecord], question: str, since: str | None = None) -> Path:
    """List the runs of a question as the study does that starts them."""
    assert records[0].path is not None
    runs = [run.id for run in records if run.id.startswith(question)]
    file = records[0].path.parents[1] / PLANNED_RUNS
    file.write_text(json.dumps({"registration": "x.json", "since": since, "runs": runs}), encoding="utf-8")
    return file


def difference(records: list[RunRecord]) -> float | None:
    comparison = compared(records, ComparisonSpec("a"))
    assert isinstance(comparison, Comparison)
    return comparison.verdicts[0].difference


@pytest.mark.parametrize(("question", "since"), [("new", None), ("old", None), ("none", "2026-01-02T00:00:00+00:00")])
def test_of_two_runs_of_a_seed_the_one_of_the_question_that_was_started_last_counts(
    records: list[RunRecord], question: str, since: str | None
) -> None:
    listed(records, question, since)
    assert difference(records) == pytest.approx(0.5 if question == "old" else -1.0)


def test_what_is_left_out_is_told(records: list[RunRecord]) -> None:
    listed(records, "new")
    comparison = compared(records, ComparisonSpec("a"), ["first"])
    assert isinstance(comparison, Comparison)
    assert comparison.remarks[0] == "first"
    assert comparison.remarks[1].startswith("left out: 6 runs of older questions of norms, which was started with")


def test_runs_that_are_named_alone_are_compared_whatever_the_study_asks_now(records: list[RunRecord]) -> None:
    listed(records, "new")
    assert difference([run for run in records if run.id.startswith("old")]) == pytest.approx(0.5)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"runs": 3, "since": null, "registration": ""}', '{"since": 3}'])
def test_without_a_list_that_can_be_read_two_runs_of_a_seed_are_refused(
    records: list[RunRecord], text: str | None
) -> None:
    file = listed(records, "new")
    file.unlink() if text is None else file.write_text(text, encoding="utf-8")
    assert read_planned_runs(file.parent).has("old-a0", "2026-01-01T00:00:00+00:00")
    with pytest.raises(NotComparable, match="a has two runs of seed 0"):
        compared(records, ComparisonSpec("a"))


def test_whoever_asks_for_an_arm_of_an_older_question_alone_is_told_why_it_is_not_there(
    records: list[RunRecord],
) -> None:
    listed(records, "new")
    records[0].place = StudyPosition(study="norms", arm="x", seed=0)
    with pytest.raises(NotComparable, match="choose among a, b; left out: 6 runs of older questions"):
        compared(records, ComparisonSpec("x"))
