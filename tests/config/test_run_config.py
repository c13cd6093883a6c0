"""The typed view knows the shape of what is composed, and says a field's value as the checks left it."""

from __future__ import annotations

import types
from typing import Any, get_args

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.run_config import Field, RunConfig
from headtohead.config.schema.key_checks import NODES, ROOT_FIELDS
from headtohead.config.schema.slots import slot_of

FIELDS = {name: field for name, field in vars(RunConfig).items() if isinstance(field, Field)}


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_checked("train", ["model/size=tiny", "trainer.threads=2"])


def allowed(field: Field[Any]) -> tuple[type, ...]:
    """Return the types of a field, `Field[int | None]`."""
    (value,) = get_args(field.__orig_class__)  # type: ignore[attr-defined]
    kinds = get_args(value) if isinstance(value, types.UnionType) else (value,)
    return tuple(getattr(kind, "__origin__", kind) for kind in kinds)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_one_of_a_composed_configuration_and_of_its_type(name: str, config: dict[str, Any]) -> None:
    value: Any = config
    for key in FIELDS[name].path.split("."):
        value = value[key]
    is_left_to_the_data = value is None and FIELDS[name].path in {f"model.{key}" for key in slot_of("model").filled}
    assert getattr(RunConfig(config), name) == value
    assert is_left_to_the_data or isinstance(value, allowed(FIELDS[name]))
    assert FIELDS[name].path.partition(".")[0] in {*NODES, *ROOT_FIELDS}


def test_what_may_be_left_out_is_none_and_all_else_must_be_there() -> None:
    assert RunConfig({"trainer": {}}).threads is None
    with pytest.raises(KeyError, match="max_steps"):
        _ = RunConfig({"trainer": {}}).max_steps


def test_what_a_class_may_lack_is_none_and_its_node_must_be_there() -> None:
    assert RunConfig({"model": {}}).max_length is None and RunConfig({"model": {"max_length": 8}}).max_length == 8
    with pytest.raises(KeyError, match="model"):
        _ = RunConfig({}).max_length
