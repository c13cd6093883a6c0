"""Verdicts on equal time say what computed each arm."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pytest

from headtohead.comparing.kernels import ACCELERATED, kernels_of, with_kernels
from headtohead.comparing.verdict import Contrast, verdict_of
from headtohead.components import mixers as package
from headtohead.components.kernels import Accelerated
from headtohead.tracking.record import Place, RunRecord

MIXERS = "headtohead.components.mixers"
VERDICT = verdict_of({"a": {0: 1.0, 1: 1.1}, "b": {0: 2.0, 1: 2.2}}, Contrast("a", "b"), "min", registered_seeds=(0, 1))


def run(arm: str, mixer: str, kernels: dict[str, str] | None = None, kind: str = "equal_time") -> RunRecord:
    model = {"mixer": {"_target_": f"{MIXERS}.{mixer}"}, "local": {"_target_": f"{MIXERS}.identity.Identity"}}
    record = RunRecord(id=arm, status="finished", place=Place("s", arm, 0), config={"model": model})
    record.budget = {"kind": kind}
    record.environment.device = {"kernels": kernels} if kernels else {}
    return record


@pytest.mark.parametrize(
    ("record", "kernels"),
    [
        (run("a", "softmax_attention.SoftmaxAttention"), ("fused attention",)),
        (run("a", "lstm.Lstm"), ("fused recurrence",)),
        (run("a", "mamba.Mamba", {"blocks.0.mixer": "mamba_ssm"}), ("mamba_ssm",)),
        (run("a", "mamba.Mamba", {"blocks.0.mixer": "torch"}), ("torch",)),
        (run("a", "mamba.Mamba"), ("torch",)),
        (run("a", "hyena.Hyena"), ("torch",)),
    ],
)
def test_an_arm_is_computed_by_what_its_mixers_have(record: RunRecord, kernels: tuple[str, ...]) -> None:
    assert kernels_of([record]) == kernels


def test_a_verdict_on_equal_time_says_that_it_is_bound_by_the_implementation() -> None:
    records = [run("a", "softmax_attention.SoftmaxAttention"), run("b", "hyena.Hyena")]
    (told,) = with_kernels([VERDICT], records)
    assert told.kernels == {"a": ("fused attention",), "b": ("torch",)}
    assert "time was equal, with a by fused attention, b by torch" in told.sentence
    assert "implementation-bound, since b has no fused kernel here." in told.sentence
    assert told.as_data()["implementation_bound"] == ["b"]


def test_where_both_have_fused_kernels_nothing_is_bound_by_the_implementation() -> None:
    records = [run("a", "softmax_attention.SoftmaxAttention"), run("b", "lstm.Lstm")]
    (told,) = with_kernels([VERDICT], records)
    assert told.implementation_bound == () and "implementation-bound" not in told.sentence


def test_where_time_was_not_equal_a_verdict_stays_as_it_is() -> None:
    records = [run(arm, "hyena.Hyena", kind="equal_tokens") for arm in "ab"]
    assert with_kernels([VERDICT], records) == [VERDICT]


def test_the_mixers_that_note_their_kernels_are_those_of_the_accelerated_kind() -> None:
    def all_under(kind: type[object]) -> Iterator[type[object]]:
        for each in type.__subclasses__(kind):
            yield each
            yield from all_under(each)

    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    found = {each.__name__ for each in all_under(Accelerated) if each.__module__.count(".") == 3}
    assert found - {"MatrixMemory"} == set(ACCELERATED)
