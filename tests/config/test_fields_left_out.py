"""A field whose constructor has a default may be left out of any part of a configuration: `~finetuning.freeze`."""

from __future__ import annotations

from copy import deepcopy
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest

from from_fields import fields_taken
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.config.instantiate import target_of
from headtohead.config.rules import compatibility
from headtohead.config.schema import key_checks

SMALL = ["model/size=tiny", "data=copy", "data.num_train=64", "data.num_validation=8", "data.num_test=8"]


def left_out(config: dict[str, Any], part: str) -> list[str]:
    """Return the fields of the part that its constructor has a default for."""
    taken = dict(fields_taken(target_of(config[part])))
    return [name for name in config[part] if taken.get(name, Parameter.empty) is not Parameter.empty]


@pytest.mark.parametrize("part", [part for part in key_checks.NODES if part != "model"])
def test_a_part_is_checked_without_its_optional_fields(part: str) -> None:
    config = compose_checked("train", SMALL)
    for field in left_out(config, part):
        changed = deepcopy(config)
        del changed[part][field]
        compatibility.check(key_checks.check(changed))


@pytest.mark.parametrize("part", ["trainer", "finetuning"])
def test_a_run_is_built_without_the_optional_fields_of_a_part(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    config = compose_checked("train", [*SMALL, "trainer=cpu", "tracking=none"])
    for field in set(left_out(config, part)) - {"accelerator", "threads"}:
        del config[part][field]
    parts = build_parts(config)
    parts.data.prepare()
    assert parts.task.spec.open_train is not None and len(parts.task.spec.open_train()) == 64
