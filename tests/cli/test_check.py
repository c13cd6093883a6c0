"""A class of a user's own package: held to the same laws, used by a YAML file alone, an arm of a study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from headtohead.cli import main
from studies.small_studies import TINY, WRITTEN

PACKAGE = """
from torch import nn

from headtohead.components.component import Mixer
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention


class Mine(SoftmaxAttention):
    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, shine: float = 1.0) -> None:
        heads = AttentionHeads(scale=shine)
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)


class SeesTheFuture(Mine):
    def forward(self, x, context):
        self.causal = False
        y = super().forward(x, context)
        self.causal = True
        return y


class Half(Mixer):
    def forward(self, x, context):
        return x


class Shifted(Mine):
    def forward(self, x, context):
        return super().forward(x, context) + 1.0


class Plain(nn.Linear):
    pass
"""


@pytest.fixture(autouse=True)
def my_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Put the package on Python's path, outside the working folder, under a name that no other test has imported."""
    name = f"package_{abs(hash(request.node.name))}"
    (tmp_path / "code" / name).mkdir(parents=True)
    (tmp_path / "code" / name / "__init__.py").write_text(PACKAGE)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "code"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    return name


def laws(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> dict[str, list[str | None]]:
    assert main(["check", *arguments, "--json"]) == code
    result: dict[str, list[str | None]] = {}
    for law in json.loads(capsys.readouterr().out)["laws"]:
        result.setdefault(law["law"], []).append(law["broken"])
    return result


def test_a_mixer_that_obeys_every_law_is_said_to(my_package: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = laws(capsys, f"{my_package}.Mine", "shine=0.5", code=0)
    assert {"made", "causality", "stepwise", "autocast", "declared_flops"} <= result.keys()
    assert not any(broken for forms in result.values() for broken in forms)


def test_the_law_that_is_broken_is_named_with_its_sentence(my_package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{my_package}.SeesTheFuture"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "│causality │ failed │ causal, float64: in evaluation a causal output must ignore later tokens" in shown
    assert "laws are broken" in shown and "│shape │ ok │" in shown


def test_a_twin_is_what_a_clever_form_is_held_against(my_package: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = laws(capsys, f"{my_package}.Shifted", "--twin", f"{my_package}.Mine", code=1)
    assert all("must give the outputs of the slow one" in str(broken) for broken in result["slow_twin"])


def test_what_cannot_be_made_is_one_failure_not_fifteen(my_package: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = laws(capsys, f"{my_package}.Half", code=1)
    assert list(result) == ["made"] and "it raised TypeError: Can't instantiate abstract class" in str(
        result["made"][0]
    )


OTHER_FILE = "headtohead.components.component"
"""The module of other contracts than that of a norm."""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("def f(:", "raises SyntaxError: invalid syntax (broken_mixer.py, line 1)"),
     ("1 / 0", "raises ZeroDivisionError: division by zero"),
     ("from collections import nothing_of_it", "raises ImportError"),
     (f"from {OTHER_FILE} import Norm", "raises ImportError: cannot import name 'Norm' from "
      "'headtohead.components.component'; import it from headtohead.components.block_parts")],
)  # fmt: skip
def test_a_file_that_cannot_be_imported_is_refused_in_a_sentence(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_mixer.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["check", "broken_mixer.Mine"]) == 2
    assert f"importing broken_mixer {sentence}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    ["positions.image_positions.Sinusoidal2d", pytest.param("norms.BatchNorm", marks=pytest.mark.slow)],
)
def test_positions_and_norms_are_held_to_the_laws_in_a_stack(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = laws(capsys, f"headtohead.components.{target}", code=0)
    assert "padding_invariance" in result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Mine"], "give package.module.Class"),
        (["PACKAGE"], "PACKAGE names no class: give PACKAGE.Mine or "),
        (["PACKAGE.py"], "PACKAGE.py names no class: give PACKAGE.Mine or "),
        (["PACKAGE.Min"], "has no class Min: did you mean Mine?"),
        (["no_such_package.Mine"], "there is no module no_such_package"),
        (["PACKAGE.Plain"], "derives from none of Mixer, CrossMixer, Position, Norm, FeedForward"),
        (["PACKAGE.Mine", "shin=1"], "shin is not an option of PACKAGE.Mine: did you mean shine?"),
        (["PACKAGE.Mine", "shine=bright"], "shine=bright is refused: it must be a number"),
        (["headtohead.components.norms.RmsNorm", "--twin", "PACKAGE.Mine"], "is not a mixer"),
    ],
)
def test_what_no_law_is_about_is_refused(
    arguments: list[str], message: str, my_package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *(argument.replace("PACKAGE", my_package) for argument in arguments)]) == 2
    assert message.replace("PACKAGE", my_package) in capsys.readouterr().err


@pytest.mark.slow
def test_a_class_of_ones_own_is_an_arm_of_a_study(my_package: str, capsys: pytest.CaptureFixture[str]) -> None:
    choice, question = Path("conf/model/mixer/mine.yaml"), Path("conf/study/mine.yaml")
    for file in (choice, question):
        file.parent.mkdir(parents=True)
    choice.write_text(f"# Mine.\n_target_: {my_package}.Mine\n_partial_: true\n")
    arms = {"theirs": ["model/mixer=softmax_attention"], "mine": ["model/mixer=mine", "model.mixer.shine=0.5"]}
    question.write_text(yaml.safe_dump({**WRITTEN, "arms": arms, "baseline": "theirs"}))
    assert main(["study", "mine", "--config-dir", "conf", *TINY, "--plan", "--json"]) == 0
    message = json.loads(capsys.readouterr().out)
    assert {arm["arm"]: arm["missing"] for arm in message["arms"]} == {"theirs": 3, "mine": 3}
