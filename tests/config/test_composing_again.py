"""A composition is made once for all that is set on it, and again where a file or a variable that it reads changes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import hydra
import pytest
import yaml

from headtohead.config import build, instantiate
from headtohead.config.compose.composition import compose, compose_checked, composed_once
from headtohead.config.rules import compatibility
from headtohead.config.schema import key_checks


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    original = hydra.compose

    def counted(*arguments: object, **options: object) -> object:
        calls.append("")
        return original(*arguments, **options)

    monkeypatch.setattr(hydra, "compose", counted)
    return calls


def test_other_values_and_other_variables_compose_nothing_anew(
    count: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compose("train", ["model.d_model=8"])
    count.clear()
    for width in range(16, 40, 8):
        monkeypatch.setenv("NOBODY_READS_THIS", str(width))
        assert compose("train", [f"model.d_model={width}"])["model"]["d_model"] == width
    assert not count


@pytest.mark.slow
def test_a_file_that_changes_and_a_variable_that_it_reads_are_seen(
    count: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "experiment" / "own.yaml"
    file.parent.mkdir()
    file.write_text("# @package _global_\nseed: ${oc.decode:${oc.env:OWN_SEED}}\n")
    for seed in (3, 4):
        monkeypatch.setenv("OWN_SEED", str(seed))
        assert compose("train", ["experiment=own"], tmp_path)["seed"] == seed
    file.write_text("# @package _global_\nseed: 12345\n")
    assert compose("train", ["experiment=own"], tmp_path)["seed"] == 12345
    assert len(count) == 3


def test_runs_of_other_values_read_no_yaml_and_runs_of_other_choices_read_it_once(
    count: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = yaml.load

    def counted(*arguments: object, **options: object) -> object:
        read.append("")
        return original(*arguments, **options)

    compose_one = composed_once()
    for norm in ("layer_norm", "rms_norm"):
        compose_one(("model=decoder_only", f"model/norm={norm}"))
    monkeypatch.setattr(yaml, "load", counted)
    count.clear()
    for norm in ("layer_norm", "rms_norm"):
        for seed in range(5):
            config = compose_one(
                ("model=decoder_only", f"model/norm={norm}", f"seed={seed}", f"name={seed}", f"optimizer.lr=0.{seed}1")
            )
            assert (config["seed"], config["optimizer"]["lr"]) == (seed, float(f"0.{seed}1"))
    assert not count and not read


def test_a_run_is_checked_once_and_each_of_its_parts_is_made_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []

    def counted(module: ModuleType, name: str) -> None:
        original = getattr(module, name)

        def call(*arguments: Any) -> object:
            is_node = module is instantiate
            calls.append(arguments[0]["_target_"] if is_node else module.__name__)
            return original(*arguments)

        monkeypatch.setattr(module, name, call)

    for module, name in ((key_checks, "check"), (compatibility, "check"), (instantiate, "target_of")):
        counted(module, name)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    config = compose_checked("train", ["data.num_train=40", "data.tokenizer=char", "model.d_model=16"])
    assert sorted(calls) == sorted((key_checks.__name__, compatibility.__name__))
    calls.clear()
    parts = build.build_parts(config)
    assert len(calls) == len(set(calls)) > 10
    calls.clear()
    parts.make_model()
    assert config["model"]["_target_"] in calls and len(calls) == len(set(calls))
