"""Configurations that are filled in, and not composed anew, are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead.building import configuration
from headtohead.building.configuration import compose_checked
from headtohead.building.errors import ConfigurationError
from headtohead.studying import composing
from headtohead.studying.composing import Composer

ARM = ("experiment=associative_recall", "model/mixer=mamba", "model/position=none", "trainer=cpu", "schedule=wsd")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    def counted(*given: Any) -> Any:
        found.append(given)
        return compose_checked(*given)

    monkeypatch.setattr(composing, "compose_checked", counted)
    return found


@pytest.mark.parametrize(
    "fields",
    [
        ("seed=7", "name=a-s7", "group=small"),
        ("optimizer.lr=1e-3", "trainer.max_steps=1e3", "schedule.warmup=0", "seed=0", "name=7"),
        ("trainer.gradient_clip=null", "trainer.deterministic=true", "name='a b'", "output_dir=/somewhere/else"),
    ],
)
def test_fields_that_are_filled_in_give_what_hydra_gives(fields: tuple[str, ...], calls: list[Any]) -> None:
    assert Composer().composed([*ARM, *fields]) == compose_checked("train", [*ARM, *fields])
    assert len(calls) == 1 and calls[0][1] == (*ARM, "name=unnamed")


def test_many_runs_of_an_arm_are_composed_once(calls: list[Any]) -> None:
    composer = Composer()
    configs = [composer.composed([*ARM, f"optimizer.lr={0.1**n}", f"seed={n}", f"name=s{n}"]) for n in range(5)]
    assert [config["seed"] for config in configs] == [0, 1, 2, 3, 4] and len(calls) == 1


@pytest.mark.parametrize("reference", ["data.seed=${seed}", "notes='of ${name}'"])
def test_what_refers_to_another_field_is_composed_run_by_run(reference: str) -> None:
    overrides = [*ARM, reference, "seed=5", "name=here"]
    assert Composer().composed(overrides) == compose_checked("train", overrides)


def test_references_in_yaml_files_of_ones_own_count_too(tmp_path: Path, calls: list[Any]) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nnotes: of ${seed}\n")
    overrides = ["experiment=mine", "seed=5", "name=here"]
    assert Composer(tmp_path).composed(overrides)["notes"] == "of 5" and calls[0][1] == tuple(overrides)


@pytest.mark.parametrize(
    "wrong", ["optimizer.lr=fast", "optimizer.speed=1", "trainer.max_steps=[1,2]", "schedule.warmup=1.5"]
)
def test_what_cannot_be_is_refused_in_the_same_words(wrong: str) -> None:
    with pytest.raises(ConfigurationError) as composed:
        compose_checked("train", [*ARM, wrong, "name=a"])
    with pytest.raises(ConfigurationError) as filled:
        Composer().composed([*ARM, wrong, "name=a"])
    assert str(filled.value) == str(composed.value)


def test_the_package_refers_to_no_field_from_another() -> None:
    folder = configuration.config_folder()
    assert not [path for path in folder.rglob("*.yaml") if "${" in path.read_text(encoding="utf-8")]
