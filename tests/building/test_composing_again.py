"""A composition is made once for all that is set on it, and again where a file or a variable that it reads changes."""

from __future__ import annotations

from pathlib import Path

import hydra
import pytest

from headtohead.building.configuration import compose


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
