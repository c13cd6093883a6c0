"""A stranger's record holds in its open fields the kinds that its readers count on, or is refused by the field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headtohead.comparison.arms import costs_of
from headtohead.comparison.comparability import read_in_part, tokenizers_sentence
from headtohead.comparison.report.sections.configs import _reading
from headtohead.comparison.tables.run_table import lines_of
from headtohead.records.leaks import leaks_in
from headtohead.records.left_out import left_out_in
from headtohead.records.open_fields import KINDS, NEEDS
from headtohead.records.record import from_json
from headtohead.records.strict_json import RecordError

COUNTS = {"rows": 10, "in_train": 1, "exactly": 1}
FULL = {
    "config": {**{part: {"_target_": "x"} for part in ("model", "data", "task", "trainer")}, "choices": {"model": "x"}},
    "costs": {"totals": {"parameters": 3, "state_elements": 2, "forward_flops": 5}},
    "data": {
        "tokenizer": "bpe",
        "vocab_size": 300,
        "max_length": 9,
        "train_rows": 12,
        "classes": ["a", "b"],
        **{name: {"train": 0.5, "test": 0.5} for name in ("bytes_per_token", "unknown_share", "cut_share")},
        "leaks": {"unit": "rows", "train": {"rows": 9, "held_out": 1}, "validation": COUNTS, "test": COUNTS},
        "left_out": {"rows": 3, "of": 9, "without": {"label": 3}},
    },
}
"""The open fields of a record, all of them."""
WRONG = ("x", None, [1], {"a": "b"}, True)


@cache
def plain() -> Mapping[str, Any]:
    record: dict[str, Any] = json.loads((Path(__file__).parent / "version_1" / "layer_norm-s0.json").read_text())
    record["environment"]["device"]["kernels"] = {"stack.blocks.0.mixer": "fused"}
    return {**record, **FULL}


def paths(node: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, below in node.items() if isinstance(node, dict) else ():
        yield (*above, name)
        yield from paths(below, (*above, name))


PATHS = [
    *paths(FULL),
    ("environment", "device", "kernels"),
    ("environment", "device", "kernels", "stack.blocks.0.mixer"),
]


def changed(path: tuple[str, ...], value: Any) -> str:
    record: Any = deepcopy(plain())
    node = record
    for name in path[:-1]:
        node = node[name]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return json.dumps(record)


def test_a_record_with_every_open_field_is_read() -> None:
    read = from_json(json.dumps(plain()))
    assert read.data["leaks"] and leaks_in([read]) and left_out_in([read]) and _reading(read)
    assert all(one in KINDS or one.rpartition(".")[0] in KINDS for others in NEEDS.values() for one in others)


@pytest.mark.parametrize("path", PATHS, ids=".".join)
@pytest.mark.parametrize("value", [*WRONG, ...], ids=repr)
def test_whatever_stands_there_is_refused_by_name_or_read_without_an_error(path: tuple[str, ...], value: Any) -> None:
    try:
        record = from_json(changed(path, value))
    except RecordError as refusal:
        assert path[0] in str(refusal)
        return
    leaks_in([record])
    left_out_in([record])
    _reading(record)
    lines_of([record])
    costs_of([record])
    tokenizers_sentence([record, from_json(json.dumps(plain()))])
    read_in_part([record])
