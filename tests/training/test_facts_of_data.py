"""Facts that a data class tells of its rows are refused before its run has a folder, or read back from its record."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from headtohead.data.data_source import DataError
from headtohead.records.record import RunRecord, from_json, to_json
from headtohead.records.strict_json import RecordError
from headtohead.training.run import train
from headtohead.training.run_recorder import _new_record
from records.test_open_fields import FULL, WRONG, paths
from training.runs import TinyData, parts

PATHS = list(paths(FULL["data"]))


class DataWithFacts(TinyData):
    """Tiny data whose reading() returns what it was made with."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__()
        self._facts = facts

    def reading(self) -> Mapping[str, Any]:
        return self._facts


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    facts: Any = deepcopy(FULL["data"])
    node = facts
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    return facts  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "facts",
    [
        {"vocab_size": 5},
        {"tokenizer": None},
        {"cut_share": {"train": 0.5}},
        {"classes": [0, 1]},
        {"licence": {"mit"}},
    ],
    ids=str,
)
def test_facts_that_no_reader_takes_are_refused_before_there_is_a_folder(
    facts: Mapping[str, Any], tmp_path: Path
) -> None:
    (field,) = facts
    with pytest.raises(
        DataError, match=rf"^what DataWithFacts tells of its rows .*record\.data\.{field}.*correct what"
    ):
        train(parts(tmp_path, data=DataWithFacts(facts)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_what_is_not_refused_is_read_back(path: tuple[str, ...], value: Any, tmp_path: Path) -> None:
    facts = changed(path, value)
    try:
        record = _new_record("x", parts(tmp_path, data=DataWithFacts(facts)))
    except DataError:
        with pytest.raises(RecordError):
            from_json(to_json(RunRecord(id="x", data=facts)))
    else:
        assert from_json(to_json(record)).data.keys() >= facts.keys()
