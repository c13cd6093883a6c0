"""A study is made of the right runs, and equal ones are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.config.run_id import run_id
from headtohead.errors import UsageError
from headtohead.studies.planning.registration import RegisteredDesign
from headtohead.studies.planning.shards import shard_of
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.planning.study_runs import overrides_of
from studies.small_studies import TINY, plan_without_models, small_study


def planned(**changes: object) -> StudyPlan:
    return StudyPlanner(small_study(**{"base": list(TINY), "seeds": 1, **changes})).plan()


def test_each_run_has_the_seed_of_its_place_and_the_overrides_of_its_arm() -> None:
    plan = planned(seeds=[0, 7])
    assert [(run.arm, run.seed) for run in plan.runs] == [("a", 0), ("b", 0), ("a", 7), ("b", 7)]
    assert [run.config["seed"] for run in plan.runs] == [0, 0, 7, 7]
    assert plan.runs[1].config["choices"]["model/norm"] == "rms_norm"
    assert plan.runs[1].config["group"] == "small" and plan.folder == Path("outputs/studies/small")
    assert len({run.id for run in plan.runs}) == 4


def test_a_run_keeps_its_id_under_other_names_in_other_places_and_beside_other_arms() -> None:
    first = planned().runs[0]
    away = [*TINY, "output_dir=elsewhere", "notes=why", "trainer.threads=3", "trainer.progress_bar=false"]
    more = {"c": ["model.num_layers=2"], "z": ["model/norm=layer_norm"], "b": ["model/norm=rms_norm"]}
    other = planned(base=away, arms=more, baseline="b", seeds=2)
    assert first.id == next(run.id for run in other.runs if run.arm == "z" and run.seed == 0)


@pytest.mark.parametrize("override", ["model.num_layers=2", "optimizer.lr=0.1", "data.seed=1", "trainer.max_steps=5"])
def test_what_changes_the_result_changes_the_id(override: str) -> None:
    assert planned().runs[0].id != planned(base=[*TINY, override]).runs[0].id


def test_an_id_does_not_depend_on_the_order_of_keys() -> None:
    config = planned().runs[0].config
    assert run_id(dict(reversed(list(config.items())))) == run_id(config)


def test_arms_that_are_the_same_run_are_refused_unless_their_seeds_are_apart() -> None:
    same = {"a": [], "b": ["model/norm=layer_norm"]}
    with pytest.raises(ConfigurationError, match="arms a and b are the same run"):
        planned(arms=same)
    assert [run.config["seed"] for run in planned(arms=same, seed_offsets={"b": 1000}).runs] == [0, 1000]


@pytest.mark.parametrize(
    ("arm", "changes", "reason"),
    [
        (
            "optimizer.lr=0.5",
            {},
            r"but for optimizer\.lr, which the tuning sets: take optimizer\.lr out of tuning\.space",
        ),
        ("model/norm=layer_norm", {}, "arms a and b are the same: change one, or give seed_offsets: {b: 2000}"),
        ("optimizer.lr=0.5", {"seed_offsets": {"b": 2000}}, None),
        ("trainer.max_steps=9", {"steps": 2}, None),
        ("model/norm=rms_norm", {}, None),
    ],
)
def test_arms_that_tuning_makes_alike_are_refused_before_their_trials(
    arm: str, changes: dict[str, object], reason: str | None
) -> None:
    """Trials of fewer steps are alike where runs are not."""
    steps = {"steps": changes.pop("steps")} if "steps" in changes else {}
    tuning = {"search": "grid", "trials": 2, "space": {"optimizer.lr": [0.1, 0.2]}, **steps}
    arms = {"a": [], "b": [arm]}
    if reason is None:
        assert len(planned(arms=arms, tuning=tuning, **changes).runs) == 4
        return
    with pytest.raises(ConfigurationError, match=reason):
        planned(arms=arms, tuning=tuning, **changes)


def test_of_two_values_for_one_field_the_arms_own_counts() -> None:
    study = small_study(base=["model/norm=none", "optimizer.lr=1", "optimizer.lr=2"])
    assert overrides_of(study, "b", 0)[:2] == ("model/norm=rms_norm", "optimizer.lr=2")


def test_a_bad_override_names_its_arm() -> None:
    with pytest.raises(ConfigurationError, match="study small, arm b: model/norm=rms does not exist"):
        planned(arms={"a": [], "b": ["model/norm=rms"]})


def test_runs_over_several_machines_are_refused() -> None:
    with pytest.raises(UsageError, match=r"study small, arm a: trainer\.num_nodes=2 is refused"):
        planned(base=[*TINY, "trainer=ddp", "trainer.num_nodes=2"])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_shards_share_the_runs_out_and_have_all_arms(count: int, tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path, seeds=4)
    runs = plan.runs
    shards = [shard_of(plan, index, count) for index in range(1, count + 1)]
    assert sorted(run.id for shard in shards for run in shard) == sorted(run.id for run in runs)
    assert all({run.arm for run in shard} == {"a", "b"} for shard in shards)


def test_a_metric_that_no_arm_measures_is_refused_before_the_first_run() -> None:
    with pytest.raises(ConfigurationError, match=r"metric=test/accuracy is not measured by arm a: did you mean"):
        StudyPlanner(small_study(metric="test/accuracy")).plan()
    tuning = {"search": "grid", "trials": 2, "metric": "validation/los", "direction": "min"}
    with pytest.raises(ConfigurationError, match=r"tuning.metric=validation/los is not .* did you mean loss"):
        StudyPlanner(small_study(tuning=tuning)).plan()


def test_splits_are_drawn_by_the_seed_where_the_study_says_so() -> None:
    """The same in every arm, whatever offset its own seed has; else the data has one split for all."""
    study = small_study(vary=["split"], seed_offsets={"b": 1000})
    for seed in study.seeds:
        for arm in study.arms:
            assert f"data.seed={seed}" in overrides_of(study, arm, seed)
    assert not any("data.seed" in override for override in overrides_of(small_study(), "a", 1))
    assert "data.seed=7" in overrides_of(study, "a", 7, trial=3), "trials draw by the seed of the tuning"


def test_a_split_that_is_fixed_cannot_be_drawn() -> None:
    with pytest.raises(
        ConfigurationError, match=r"vary=\[split\] draws the splits by the seeds, and data.seed=3 fixes"
    ):
        small_study(vary=["split"], base=["data.seed=3"])
    with pytest.raises(ConfigurationError, match="vary"):
        small_study(vary=["data"])


def test_splits_that_vary_are_part_of_what_is_registered() -> None:
    once, drawn = (RegisteredDesign.of(small_study(vary=vary)) for vary in ([], ["split"]))
    assert once.changed_in(drawn) == ["vary"]
