"""A study in Python is its file: every shipped one comes back from both, and objects become overrides."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch import Tensor, nn

import headtohead as h2h
from headtohead.config.compose.choices import choices
from headtohead.studies.definition.read_study_file import study_from

STUDIES = {choice.name: choice.path for choice in choices("study")}
SMALL = ["data=copy", "data.num_train=64", "data.num_validation=8", "data.num_test=8", "model.d_model=16"]


class OneLayer(nn.Module):
    def __init__(self, vocabulary: int = 64, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.layers(tokens)
        return logits


def study(arms: dict[str, Any], **fields: Any) -> h2h.Study:
    return h2h.Study(question="Which?", arms=arms, base=SMALL, **fields)


@pytest.mark.parametrize("name", STUDIES)
def test_every_shipped_study_comes_back_from_python_and_from_its_text(name: str) -> None:
    written = yaml.safe_load(STUDIES[name].read_text(encoding="utf-8"))
    read = h2h.Study.from_yaml(STUDIES[name])
    again = h2h.Study.from_yaml(read.to_yaml())
    assert study_from(name, written) == study_from(name, read.fields()) == study_from(name, again.fields())
    assert again.to_yaml() == read.to_yaml() and len(repr(read).splitlines()) == 3


def test_what_is_left_out_has_the_defaults_of_a_file() -> None:
    definition = study({"plain": [], "rms": ["model/norm=rms_norm"]}).checked()
    assert (definition.baseline, definition.direction, definition.seeds) == ("plain", "min", (0, 1, 2))
    assert study({"plain": [], "rms": ["model/norm=rms_norm"]}, metric="test/accuracy").checked().direction == "max"


def test_a_text_has_the_order_of_a_file_whatever_is_left_out() -> None:
    text = study({"plain": [], "rms": ["model/norm=rms_norm"]}).to_yaml()
    assert h2h.Study.from_yaml(text).to_yaml() == text


@pytest.mark.slow
def test_costs_of_a_study_are_known_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    question = study({"plain": [], "rms": ["model/norm=rms_norm"]}, seeds=2)
    costs = h2h.study(question, ["trainer=cpu", "trainer.max_steps=2"], run=False).estimate()
    assert [(row["arm"], row["runs"], row["missing"]) for row in costs.as_rows()] == [("plain", 2, 2), ("rms", 2, 2)]
    assert costs.title.startswith("mine: 4 of 4 runs to do") and len(repr(costs).splitlines()) == 5
    assert not [path for path in tmp_path.rglob("*") if path.name in ("record.json", "verdict.json", "report.html")]


def test_a_class_a_factory_and_one_with_options_are_arms(tmp_path: Path) -> None:
    fields = study({"layer": OneLayer, "wide": partial(OneLayer, width=16)}).fields()
    assert fields["arms"]["layer"] == ["model=external", f"model.module._target_={__name__}.OneLayer"]
    assert fields["arms"]["wide"][-1] == "+model.module.width=16"
    assert h2h.Study.from_yaml(study({"layer": OneLayer, "plain": []}).to_yaml(tmp_path / "mine.yaml")).fields()


@pytest.mark.slow
def test_a_configuration_is_an_arm_that_composes_to_itself() -> None:
    config = h2h.compose("train", [*SMALL, "model/norm=rms_norm", "optimizer.lr=0.01", "model.num_heads=2"])
    again = h2h.compose("train", study({"own": config, "plain": []}).fields()["arms"]["own"])
    left = {"name", "choices"}
    assert {**again, **dict.fromkeys(left)} == {**config, **dict.fromkeys(left)}


@pytest.mark.parametrize(
    ("arm", "words"),
    [("model/norm=rms_norm", "must be a list of overrides"), (OneLayer(), "start every seed from the same weights")],
)
def test_what_is_no_arm_is_refused_with_what_to_give(arm: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        study({"one": arm, "plain": []}).fields()


def test_a_study_is_not_called_new() -> None:
    with pytest.raises(ValueError, match="new is not a name of a study"):
        study({"plain": [], "rms": ["model/norm=rms_norm"]}, name="new").to_yaml()
