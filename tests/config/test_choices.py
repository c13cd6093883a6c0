"""Groups and choices, as the files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.config.compose.choices import Choice, choice_names, choices, config_folder, folders, groups
from headtohead.config.errors import ConfigurationError

ALL = [choice for group in folders() for choice in choices(group)]


def test_config_folder_holds_the_roots() -> None:
    assert (config_folder() / "train.yaml").is_file()


@pytest.mark.parametrize("choice", ALL, ids=lambda choice: f"{choice.group}={choice.name}")
def test_every_choice_has_a_line_that_says_what_it_is(choice: Choice) -> None:
    assert len(choice.description) > 10, f"{choice.path}: give it a first comment line, one plain sentence"
    assert choice.description[0].isupper() or not choice.description[0].isalpha()


def test_every_yaml_is_in_some_group_or_a_root() -> None:
    listed = {choice.path for choice in ALL} | set(config_folder().glob("*.yaml"))
    assert listed == set(config_folder().rglob("*.yaml"))


def test_package_header_is_not_the_description(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.yaml").write_text("# @package _global_\n# Rows of mine.\na: 1\n")
    assert {c.name: c.description for c in choices("data", tmp_path)}["mine"] == "Rows of mine."


def test_the_package_wins_over_a_user_file_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "optimizer").mkdir()
    (tmp_path / "optimizer" / "adamw.yaml").write_text("# Mine.\n")
    (tmp_path / "optimizer" / "mine.yaml").write_text("# Mine.\n")
    result = {choice.name: choice.path.parent for choice in choices("optimizer", tmp_path)}
    assert result["adamw"] == config_folder() / "optimizer"
    assert result["mine"] == tmp_path / "optimizer"


def test_unknown_group_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigurationError, match=r"model/mixr is not a group: did you mean model/mixer\?"):
        choice_names("model/mixr")


def test_config_dir_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a folder"):
        groups(tmp_path / "nowhere")
