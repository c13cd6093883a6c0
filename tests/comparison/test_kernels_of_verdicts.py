"""Verdicts on equal time say what computed each arm."""

from __future__ import annotations

import pytest

from headtohead.comparison.contrasts import Contrast
from headtohead.comparison.verdicts.verdict_details import kernels_of, with_kernels
from headtohead.records.record import RunRecord, StudyPosition
from single_verdict import verdict_of

ATTENTION, RECURRENCE, OWN = {"mixer": "fused attention"}, {"mixer": "fused recurrence"}, {"mixer": "torch"}
VERDICT = verdict_of({"a": {0: 1.0, 1: 1.1}, "b": {0: 2.0, 1: 2.2}}, Contrast("a", "b"), "min", registered_seeds=(0, 1))


def run(arm: str, kernels: dict[str, str] | None, kind: str = "equal_time") -> RunRecord:
    record = RunRecord(id=arm, status="finished", place=StudyPosition("s", arm, 0))
    record.budget = {"kind": kind}
    record.environment.device = {} if kernels is None else {"kernels": kernels}
    return record


@pytest.mark.parametrize(
    ("record", "kernels"),
    [
        (run("a", {"blocks.0.mixer": "fused attention", "blocks.1.mixer": "fused attention"}), ("fused attention",)),
        (run("a", {"blocks.0.mixer": "mamba_ssm", "blocks.0.local": "torch"}), ("mamba_ssm", "torch")),
        (run("a", {"blocks.0.mixer": "my own kernel"}), ("my own kernel",)),
        (run("a", {}), ()),
        (run("a", None), ("what its record does not say",)),
    ],
)
def test_an_arm_is_computed_by_what_its_records_tell(record: RunRecord, kernels: tuple[str, ...]) -> None:
    assert kernels_of([record]) == kernels


def test_a_verdict_on_equal_time_says_that_it_is_bound_by_the_implementation() -> None:
    records = [run("a", ATTENTION), run("b", OWN)]
    (message,) = with_kernels([VERDICT], records)
    assert message.kernels == {"a": ("fused attention",), "b": ("torch",)}
    assert "time was equal, with a by fused attention, b by torch" in message.sentence
    assert "implementation-bound, since b has no fused kernel here." in message.sentence
    assert message.as_data()["implementation_bound"] == ["b"]


def test_where_both_have_fused_kernels_nothing_is_bound_by_the_implementation() -> None:
    records = [run("a", ATTENTION), run("b", RECURRENCE)]
    (message,) = with_kernels([VERDICT], records)
    assert message.implementation_bound == () and "implementation-bound" not in message.sentence


def test_where_time_was_not_equal_a_verdict_stays_as_it_is() -> None:
    records = [run(arm, OWN, kind="equal_tokens") for arm in "ab"]
    assert with_kernels([VERDICT], records) == [VERDICT]
