"""Arms that gave the same numbers are reported: an option that nothing read is no arm."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.comparison.comparison import comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.same_numbers import sentences_on_same_numbers
from headtohead.records.record import RunRecord
from headtohead.records.run_summary import UNNAMED_STAGE

LOSSES = (2.25, 2.5, 2.75)


def runs(arm: str, losses: tuple[float, ...] = LOSSES, stage: str = "test", **more: Any) -> list[RunRecord]:
    """Return a finished run for each loss, under seeds 0, 1 and so on."""
    return [
        RunRecord(
            id=f"{arm}-{seed}", name=arm, seed=seed, status="finished",
            metrics={stage: {"loss": loss, "accuracy": 0.5}}, **more,
        )
        for seed, loss in enumerate(losses)
    ]  # fmt: skip


CASES = {
    "the same": (runs("b"), True),
    "more seeds": (runs("b", (*LOSSES, 3.0)), True),
    "another last digit": (runs("b", (2.25, 2.5, 2.7500000000000004)), False),
    "other seeds": ([RunRecord(id="b", name="b", seed=9, status="finished", metrics={"test": {"loss": 2.25}})], False),
    "losses of another program": (runs("b", stage=UNNAMED_STAGE), False),
    "no loss": ([RunRecord(id="b", name="b", seed=0, status="finished", metrics={"test": {"accuracy": 0.5}})], False),
}


@pytest.mark.parametrize("name", CASES)
def test_arms_of_equal_results_are_named(name: str) -> None:
    other, are_same = CASES[name]
    sentences = sentences_on_same_numbers({"a": runs("a"), "b": other}, [("b", "a")])
    assert bool(sentences) == are_same
    assert not are_same or sentences[0].startswith("b and a have the same results to the last digit")


def test_a_comparison_says_so_beside_its_verdict() -> None:
    comparison = comparison_of([*runs("a"), *runs("b"), *runs("c", (1.0, 1.5, 1.25))], ComparisonSpec(against="a"))
    (sentence,) = (remark for remark in comparison.remarks if "to the last digit" in remark)
    assert sentence.startswith("b and a ")
