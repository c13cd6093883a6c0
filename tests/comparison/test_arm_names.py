"""A run has one name as a contestant, whoever asks."""

from __future__ import annotations

import pytest

from headtohead.comparison.arms import arms_of
from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.tables.run_table import line_of
from headtohead.comparison.task_comparison import compared
from headtohead.config.compose.composition import compose
from headtohead.records.record import RunRecord, StudyPosition
from headtohead.records.run_summary import bare_summary
from headtohead.wandb_client.run_metadata import beside_config

RECORDS = {
    "in a study": (RunRecord(id="r", name="gpt-s3", seed=3, place=StudyPosition("s", "gpt_2", 3)), "gpt_2"),
    "named by what it is": (RunRecord(id="r", name="gpt-lr1e_3-s3", seed=3), "gpt-lr1e_3"),
    "named by somebody": (RunRecord(id="r", name="my-s1-idea", seed=1), "my-s1-idea"),
    "of another seed": (RunRecord(id="r", name="vit-s16", seed=6), "vit-s16"),
    "without a name": (RunRecord(id="r", seed=0), "r"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_run_is_the_same_contestant_wherever_it_is_shown(name: str) -> None:
    record, arm = RECORDS[name]
    assert record.arm == line_of(record).arm == bare_summary(record, "there").arm == beside_config(record)["arm"] == arm


def test_runs_that_differ_in_the_seed_alone_are_one_arm() -> None:
    for around in ([], ["optimizer.lr=1e-3", "model.d_model=64"], ["model/norm=rms_norm"]):
        names = [str(compose("train", [*around, f"seed={seed}"])["name"]) for seed in range(3)]
        runs = [RunRecord(id=name, name=name, seed=seed, status="finished") for seed, name in enumerate(names)]
        (arm,) = arms_of([(run, 1.0 + run.seed) for run in runs], "test")
        assert list(arm.outcomes) == [0, 1, 2] and arm.name == names[0].removesuffix("-s0")


def test_a_baseline_is_named_by_its_arm_or_by_a_run_of_it() -> None:
    runs = [
        RunRecord(
            id=f"{name}{seed}",
            name=f"{name}-s{seed}",
            seed=seed,
            status="finished",
            metrics={"test": {"loss": loss + seed}},
        )
        for name, loss in (("cnn", 1.0), ("mlp", 2.0))
        for seed in range(3)
    ]
    for against in ("mlp", "mlp-s0", "mlp-s2"):
        comparison = compared(runs, ComparisonSpec(against, "test/loss", "min"))
        assert isinstance(comparison, Comparison) and comparison.baseline == "mlp"
        assert [verdict.arm for verdict in comparison.verdicts] == ["cnn"]
    with pytest.raises(NotComparable, match=r"--against mlp-s3: no run has this name; choose among cnn, mlp"):
        compared(runs, ComparisonSpec("mlp-s3", "test/loss", "min"))
