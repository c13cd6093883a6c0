"""A field of a source, in data that are made of others, changes their rows or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import make

FEW = {"num_train": 40, "num_validation": 6, "num_test": 6}
OTHER: dict[str, Any] = {"tokenizer": "byte", "vocab_size": 300, "packing": "stream", "max_length": 9}
"""Another value of a field that is no number and no switch."""
CASES = {
    "text_to_text": ["of"],
    "mix": ["sources.first", "sources.second"],
}


def overrides_of(choice: str) -> list[str]:
    task = ["task=seq2seq", "model=encoder_decoder"] if choice == "text_to_text" else []
    few = [f"data.{part}.{name}={value}" for part in CASES[choice] for name, value in FEW.items()]
    return [f"data={choice}", *task, *few]


def identity(config: dict[str, Any]) -> tuple[object, ...]:
    data = make(config["data"])
    spec = data.spec()
    return spec.data_hash, spec.tokenizer_hash, spec.max_length, data.batch_size


def another(name: str, value: object) -> object:
    if name in OTHER:
        return OTHER[name]
    return str(not value).lower() if isinstance(value, bool) else None if not isinstance(value, int) else value + 1


@pytest.mark.slow
@pytest.mark.parametrize(("choice", "part"), [(choice, part) for choice, parts in CASES.items() for part in parts])
def test_a_field_of_a_source_changes_rows_or_is_refused(choice: str, part: str) -> None:
    base = overrides_of(choice)
    config = compose_checked("train", base)
    usual, node = identity(config), config["data"]
    for name in part.split("."):
        node = node[name]
    tried, refused = 0, set()
    for name, value in node.items():
        if name.startswith("_") or (new := another(name, value)) is None:
            continue
        both = [f"data.{one}.{name}={new}" for one in CASES[choice]] if name == "context_length" else []
        typed = [*base, *(both or [f"data.{part}.{name}={new}"])]
        tried += 1
        try:
            changed = compose_checked("train", typed)
        except ConfigurationError as error:
            refused.add(name)
            assert f"data.{part}.{name}={new} has no effect" in str(error)
            continue
        assert identity(changed) != usual, f"{typed[-1]} changes nothing"
    assert tried > 5 and "batch_size" in refused
    assert ("tokenizer" in refused) == (part != "sources.first")


@pytest.mark.slow
def test_a_source_may_name_the_tokenizer_that_reads_it() -> None:
    both = [f"data.sources.{name}.tokenizer=byte" for name in ("first", "second")]
    compose_checked("train", ["data=mix", *both])
    with pytest.raises(ConfigurationError, match=r"reads all its texts by data\.sources\.first\.tokenizer"):
        compose_checked("train", ["data=mix", both[1]])
