"""Files of the user's own: they add choices to every group, and replace a shipped one where their header says so,
alone."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.config.compose.choices import STUDY, choice_names, config_folder, folders
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.compose.replacements import REPLACED, note_replaced
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_id import run_id
from headtohead.studies.definition.read_study_file import read_study

ROOTS = {"budget": "match", "launcher": "launch"}
"""The roots of groups that a run does not have."""
GROUPS = sorted(set(folders()) - {STUDY}, key=lambda group: random.Random(group).random())
"""The groups, in an order in which a dozen draws see groups of every depth."""
NORM = "_target_: torch.nn.LayerNorm\n_partial_: true\neps: 0.125\n"


def save(folder: Path, choice: str, text: str) -> Path:
    path = folder / f"{choice}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def message(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in ("choices", REPLACED)}


def composed(group: str, choice: str, own: Path | None = None) -> dict[str, Any] | str:
    """The configuration, or why there is none."""
    try:
        return compose(ROOTS.get(group.partition("/")[0], "train"), [f"{group}={choice}"], own)
    except ConfigurationError as error:
        return str(error)


@pytest.mark.slow
def test_of_every_group_a_choice_with_the_header_is_replaced_and_without_it_refused(
    tmp_path: Path, draw_seed: int
) -> None:
    rng = random.Random(draw_seed)
    group = GROUPS[draw_seed % len(GROUPS)]
    replaced, model = (rng.choice(choice_names(group)) for _ in range(2))
    text = (config_folder() / group / f"{model}.yaml").read_text(encoding="utf-8")
    if re.search(rf"\b{re.escape(replaced)}\b", text):
        model, text = replaced, (config_folder() / group / f"{replaced}.yaml").read_text(encoding="utf-8")
    expected = composed(group, model)

    path = save(tmp_path, f"{group}/{replaced}", f"{text}# mine\n")
    result = composed(group, replaced, tmp_path)
    assert isinstance(result, str) and str(path) in result and f"`# replaces: {group}/{replaced}`" in result

    first, _, rest = text.partition("\n")
    save(tmp_path, f"{group}/{replaced}", f"{first}\n# replaces: {group}/{replaced}\n{rest}" if "@package" in first
         else f"# replaces: {group}/{replaced}\n{text}")  # fmt: skip
    result = composed(group, replaced, tmp_path)
    if isinstance(expected, str):
        assert isinstance(result, str)
        return
    assert isinstance(result, dict)
    assert message(result) == message(expected)
    assert list(result[REPLACED]) == [f"{group}/{replaced}"] and REPLACED not in expected


@pytest.mark.slow
def test_a_default_and_what_another_choice_is_made_of_are_replaced_too(tmp_path: Path) -> None:
    save(tmp_path, "model/norm/layer_norm", f"# replaces: model/norm/layer_norm\n{NORM}")
    shipped = (config_folder() / "tracking/auto.yaml").read_text(encoding="utf-8")
    own = shipped.replace("finish_timeout: 15.0", "finish_timeout: 5.0")
    save(tmp_path, "tracking/auto", f"# replaces: tracking/auto\n{own}")
    config = compose("train", ["tracking=offline"], tmp_path)
    assert config["model"]["norm"]["eps"] == 0.125 and config["tracking"]["finish_timeout"] == 5.0
    assert list(config[REPLACED]) == ["model/norm/layer_norm", "tracking/auto"]
    assert list(compose("train", ["tracking=offline", "model/norm=rms_norm"], tmp_path)[REPLACED]) == ["tracking/auto"]


@pytest.mark.slow
def test_a_default_of_the_same_name_that_does_not_ask_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    save(tmp_path, "model/norm/layer_norm", NORM)
    with pytest.raises(ConfigurationError, match="would be passed over"):
        compose("train", [], tmp_path)


@pytest.mark.parametrize(
    ("choice", "header", "message"),
    [
        ("model/norm/mine", "model/norm/layer_norm", "it replaces model/norm/layer_norm, and is model/norm/mine"),
        ("model/norm/mine", "model/norm/mine", "is model/norm/mine, and no such choice is shipped"),
        ("model/norm/layer_norm", "layer_norm", "says that it replaces layer_norm, and is model/norm/layer_norm"),
    ],
)
def test_a_header_that_is_not_true_is_refused(choice: str, header: str, message: str, tmp_path: Path) -> None:
    save(tmp_path, choice, f"# replaces: {header}\n{NORM}")
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        compose("train", [f"model/norm={choice.rpartition('/')[2]}"], tmp_path)


@pytest.mark.slow
def test_the_content_follows_the_fields_and_not_where_the_file_lies(tmp_path: Path) -> None:
    shipped = (config_folder() / "model/norm/layer_norm.yaml").read_text(encoding="utf-8")
    save(tmp_path / "same", "model/norm/layer_norm", f"# replaces: model/norm/layer_norm\n{shipped}")
    save(tmp_path / "other", "model/norm/layer_norm",
         f"# replaces: model/norm/layer_norm\n{shipped.replace('eps: 1.0e-5', 'eps: 0.125')}")  # fmt: skip
    positions = (None, tmp_path / "same", tmp_path / "other")
    usual, same, other = (run_id(compose_checked("train", [], own)) for own in positions)
    assert usual == same != other


def test_a_study_is_replaced_only_when_asked(tmp_path: Path) -> None:
    text = (config_folder() / "study/demo.yaml").read_text(encoding="utf-8").replace("question: ", "question: Mine. ")
    save(tmp_path, "study/demo", text)
    with pytest.raises(ConfigurationError, match="`# replaces: study/demo` at its top"):
        read_study("demo", (), tmp_path)
    save(tmp_path, "study/demo", f"# replaces: study/demo\n{text}")
    assert read_study("demo", (), tmp_path).question.startswith("Mine. ")
    assert not read_study("demo").question.startswith("Mine. ")


@pytest.mark.slow
def test_the_command_names_what_is_replaced_and_its_list_shows_the_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("headtohead/conf"), "model/norm/layer_norm", f"# replaces: model/norm/layer_norm\n# Mine.\n{NORM}")
    assert main(["train", "--cfg", "job"]) == 0
    shown = capsys.readouterr()
    assert "headtohead/conf/model/norm/layer_norm.yaml replaces the shipped model/norm/layer_norm" in shown.err
    assert "replaced:\n  model/norm/layer_norm: headtohead/conf/model/norm/layer_norm.yaml" in shown.out
    assert main(["list", "model/norm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model/norm"]["layer_norm"] == "Mine."


@pytest.mark.slow
def test_a_run_that_is_changed_says_what_is_replaced_in_it_and_no_more(tmp_path: Path) -> None:
    shipped = (config_folder() / "model/norm/layer_norm.yaml").read_text(encoding="utf-8")
    save(tmp_path, "model/norm/layer_norm", f"# replaces: model/norm/layer_norm\n{shipped}")
    lr = (config_folder() / "optimizer/adamw.yaml").read_text(encoding="utf-8")
    save(tmp_path, "optimizer/adamw", f"# replaces: optimizer/adamw\n{lr}")
    composed, usual = compose("train", [], tmp_path), compose("train", [])
    for before, groups, expected in (
        (usual, [], []),
        (usual, ["model"], ["model/norm/layer_norm"]),
        (composed, ["model/norm"], ["model/norm/layer_norm", "optimizer/adamw"]),
    ):
        changed = dict(before)
        note_replaced(changed, before, composed, groups)
        assert sorted(changed.get(REPLACED, ())) == expected
    note_replaced(composed, composed, usual, ["model/norm"])
    assert list(composed[REPLACED]) == ["optimizer/adamw"]
