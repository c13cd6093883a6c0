"""A study that no verdict could compare, or that it would judge the wrong way round, is refused before it trains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest

from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import ComparisonSpec, comparison_of
from headtohead.config.compose.composition import composed_once
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.config.schema.metric_names import better_direction
from headtohead.data.data_source import DataSource
from headtohead.errors import UsageError
from headtohead.metrics import Direction, Metric, direction_error, metrics
from headtohead.metrics.language_modelling import LOSS
from headtohead.records.record import RunRecord
from headtohead.studies.planning import comparable_arms
from headtohead.studies.planning.comparable_arms import refuse_incomparable
from headtohead.studies.planning.study_runs import check_metric, refuse_impossible_layers
from headtohead.sweeps import parameters
from headtohead.sweeps.sweep import Sweep
from headtohead.tasks.causal_lm import CausalLanguageModelling
from studies.small_studies import small_study

COMPOSE = composed_once()


class Judged(CausalLanguageModelling):
    """A task of a user's with metrics of its own, one of which has the name of another of this package."""

    metrics = (
        LOSS,
        Metric(name="effort", direction="min", best=0.0, over="rows"),
        Metric("accuracy", "min", best=0.0, over="rows"),
        Metric("temperature", None, best=None, over="rows"),
        replace(LOSS, name="gain", direction="max"),
    )


class Unread(CausalLanguageModelling):
    """A task of a user's whose metrics are known once it is imported."""

    metrics = tuple(Metric(name=name, direction="max", best=1.0, over="rows") for name in ("loss", "grace"))


def arms(*, overrides: Sequence[str], base: Sequence[str] = ("data=copy",)) -> dict[str, Any]:
    small = (
        "data.num_train=20",
        "data.num_validation=6",
        "data.num_test=6",
        "data.batch_size=2",
        "trainer.accelerator=cpu",
    )
    both = {"a": (*base, *small), "b": (*base, *small, *overrides)}
    return {arm: COMPOSE(("tracking=none", "model.d_model=8", *own)) for arm, own in both.items()}


@pytest.mark.parametrize(
    ("overrides", "fields"),
    [
        (["data=reverse"], "a (data=copy) and b (data=reverse)"),
        (["data.num_validation=5"], "a (data.num_validation=6) and b (data.num_validation=5)"),
        (["data.num_test=5"], "a (data.num_test=6) and b (data.num_test=5)"),
        (["data.length=3"], "a (data.length=16) and b (data.length=3)"),
        (["trainer.validation_batches=1"], "a (trainer.validation_batches=null) and b (trainer.validation_batches=1)"),
        (["data.batch_size=4"], ""),
        (["trainer.validation_batches=100"], ""),
        (["model/norm=rms_norm", "optimizer.lr=0.1"], ""),
    ],
    ids=str,
)
def test_arms_that_measure_otherwise_are_refused_unless_that_is_allowed(overrides: list[str], fields: str) -> None:
    written = arms(overrides=overrides)
    if not fields:
        refuse_incomparable(small_study(), written)
        return
    with pytest.raises(ConfigurationError) as refused:
        refuse_incomparable(small_study(), written)
    assert str(refused.value) == (
        f"study small would have no verdict, since {fields} differ in their evaluation data: give all arms the same, "
        "or write allow_unlike: [evaluation] into the study"
    )
    refuse_incomparable(small_study(allow_unlike=["evaluation", "loss_normalisation"]), written)
    refuse_incomparable(small_study(allow_unlike=["evaluation"]), written)


def test_the_permission_that_a_refusal_names_is_all_that_is_missing() -> None:
    written = arms(overrides=["task=masked_lm", "model=encoder_only", "data.length=3"])
    with pytest.raises(ConfigurationError) as refused:
        refuse_incomparable(small_study(), written)
    named = re.search(r"allow_unlike: \[(.*)\]", str(refused.value))
    assert named is not None and named[1] == "loss_normalisation, evaluation"
    refuse_incomparable(small_study(allow_unlike=named[1].split(", ")), written)


@pytest.mark.parametrize("batches", ["null", "100"])
def test_what_arms_measure_is_read_from_their_data_alone(batches: str) -> None:
    """Arms with other data and a model that no machine holds are compared by their data."""
    huge = ("model.d_model=40000", "model.num_heads=8", "model.num_layers=80", f"trainer.validation_batches={batches}")
    refuse_incomparable(small_study(), arms(base=("data=copy", *huge), overrides=["data.batch_size=4"]))


def test_data_are_read_only_where_the_measurement_depends_on_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(config: object) -> None:
        raise AssertionError("data were read")

    monkeypatch.setattr(comparable_arms, "build_data", refuses)
    refuse_incomparable(small_study(), arms(overrides=["data.batch_size=4"]))


def test_an_arm_whose_data_are_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses_three(config: Any) -> DataSource:
        if config["data"]["length"] == 3:
            raise UsageError("data.length=3 is refused")
        return build_data(config)

    monkeypatch.setattr(comparable_arms, "build_data", refuses_three)
    with pytest.raises(ConfigurationError, match=r"study small, arm b: data\.length=3 is refused"):
        refuse_incomparable(small_study(), arms(overrides=["data.length=3"]))


@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError])
def test_errors_in_the_code_of_data_are_left_to_the_runs(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(config: object) -> None:
        raise error("of the user's code")

    monkeypatch.setattr(comparable_arms, "build_data", fails)
    refuse_incomparable(small_study(), arms(overrides=["data.length=3"]))


def test_an_arm_whose_layers_cannot_be_made_is_named() -> None:
    typed = ["model/mixer=mamba2", "model/position=none", "model.mixer.num_groups=3"]
    with pytest.raises(ConfigurationError, match=r"study small, arm b: model\.mixer\.num_groups=3 does not divide"):
        refuse_impossible_layers(small_study(), arms(overrides=typed))


@pytest.mark.parametrize("name", [name for name, one in metrics().items() if one.direction is not None])
def test_every_metric_has_one_direction(name: str) -> None:
    own = metrics()[name].direction
    other: Any = "min" if own == "max" else "max"
    assert own is not None and direction_error(f"test/{name}", own, own) is None
    assert direction_error(f"validation/{name}", other, own) == (
        f"validation/{name} is better the {'lower' if own == 'min' else 'higher'} it is"
    )


def of_own_task(declared: str) -> dict[str, Any]:
    """Return two arms with a task of the user's own."""
    return {arm: {**config, "task": {"_target_": declared}} for arm, config in arms(overrides=[]).items()}


JUDGED = {metric.name: metric.direction for metric in Judged.metrics}


@pytest.mark.parametrize("name", sorted(JUDGED))
def test_tasks_of_users_are_judged_in_the_direction_that_they_declare(name: str) -> None:
    written, own = of_own_task(f"{Judged.__module__}.{Judged.__name__}"), JUDGED[name]
    for direction in get_args(Direction):
        study = small_study(metric=f"test/{name}", direction=direction)
        sweep = Sweep("s", "grid", {}, (), metric=f"validation/{name}", larger_is_better=direction == "max")
        if own is None:
            assert better_direction(written["a"], f"test/{name}") is None
        elif own == direction:
            check_metric(study, written)
            parameters.check_metric(sweep, [written["a"]])
        else:
            with pytest.raises(ConfigurationError, match=f"direction={direction}, and test/{name} .* direction={own}"):
                check_metric(study, written)
            with pytest.raises(ConfigurationError, match=f"and validation/{name} is better .*give goal: {own}imize"):
                parameters.check_metric(sweep, [written["a"]])


@pytest.mark.parametrize("direction", get_args(Direction))
def test_tasks_of_users_whose_source_declares_no_direction_may_be_judged_in_any(direction: Direction) -> None:
    check_metric(small_study(direction=direction), of_own_task(f"{Unread.__module__}.{Unread.__name__}"))


def test_studies_sweeps_and_comparisons_refuse_the_worse_direction() -> None:
    written = arms(overrides=[])
    with pytest.raises(ConfigurationError, match=r"study small: direction=max, and .*: give direction=min"):
        check_metric(small_study(direction="max"), written)
    sweep = Sweep("s", "grid", {}, (), larger_is_better=True)
    with pytest.raises(ConfigurationError, match=r"sweep s: metric\.goal=maximize and .*: give goal: minimize"):
        parameters.check_metric(sweep, [written["a"]])
    records = [
        RunRecord(
            id=arm, name=arm, status="finished", metrics={"validation": {"loss": 1.0}, "test": {}},
            scales={"loss": metrics()["loss"]},
        )
        for arm in ("a", "b")
    ]  # fmt: skip
    with pytest.raises(NotComparable, match=r"--direction max: loss is better the lower it is.*give --direction min"):
        comparison_of(records, ComparisonSpec("a", metric="validation/loss", direction="max"))
    assert comparison_of(records, ComparisonSpec("a", metric="validation/loss", direction="min")).direction == "min"
