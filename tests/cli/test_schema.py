"""The JSON schema takes every file that ships, and refuses what the configuration's own checks refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from headtohead.cli import main
from headtohead.config.compose.choices import config_folder, yaml_files
from headtohead.config.schema.json_schema import json_schema
from headtohead.studies.definition.study_fields import KINDS

FILES = sorted(Path(entry.path) for entry in yaml_files(config_folder()))


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft7Validator:
    made = json_schema(KINDS)
    jsonschema.Draft7Validator.check_schema(made)
    return jsonschema.Draft7Validator(made)


def wrong(schema: jsonschema.Draft7Validator, content: Any) -> bool:
    return not schema.is_valid(content)


@pytest.mark.slow
def test_every_file_that_ships_is_taken(schema: jsonschema.Draft7Validator) -> None:
    assert len(FILES) > 200
    refused = [str(file) for file in FILES if wrong(schema, yaml.safe_load(file.read_text(encoding="utf-8")))]
    assert not refused


@pytest.mark.slow
def test_a_typing_error_in_any_file_is_refused(schema: jsonschema.Draft7Validator) -> None:
    """Typing errors are refused in a choice's file, a study and an experiment alike; a user's own class may take
    anything."""
    passed = []
    for file in FILES:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        if not wrong(schema, {**content, "no_such_field": 1}):
            passed.append(file.relative_to(config_folder()).as_posix())
    assert all(name.endswith("external.yaml") for name in passed), passed
    assert not wrong(schema, {"_target_": "my_package.MyMixer", "no_such_field": 1})


@pytest.mark.parametrize(
    ("content", "is_wrong"),
    [
        ({"model": {"d_model": 64}}, False),
        ({"model": {"d_model": "wide"}}, True),
        ({"model": {"d_model": -3}}, True),
        ({"model": {"d_model": "${data.context_length}"}}, False),
        ({"model": {"mixer": {"num_kv_heads": 2}}}, False),
        ({"model": {"mixer": {"num_kv_head": 2}}}, True),
        ({"seed": "one"}, True),
        ({"optimiser": {"lr": 0.1}}, True),
        ({"_target_": "headtohead.components.mixers.recurrent.mamba.Mamba", "state": 16}, False),
        ({"_target_": "headtohead.components.mixers.recurrent.mamba.Mamba", "state": "sixteen"}, True),
        ({"question": "Which?", "direction": "max"}, False),
        ({"question": "Which?", "direction": "up"}, True),
    ],
)
def test_values_are_of_their_kind(schema: jsonschema.Draft7Validator, content: Any, is_wrong: bool) -> None:
    assert wrong(schema, content) == is_wrong


@pytest.mark.slow
def test_the_command_prints_the_schema_and_how_an_editor_finds_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    shown = capsys.readouterr()
    mixer = json.loads(shown.out)["definitions"]["model.mixer"]["properties"]["state"]
    assert "states" in json.dumps(mixer), "the comments of the files describe their fields"
    assert "# yaml-language-server: $schema=headtohead.schema.json" in shown.err
