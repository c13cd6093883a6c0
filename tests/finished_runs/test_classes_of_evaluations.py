"""Classes that other data name otherwise are compared by number only where no name has two numbers."""

from __future__ import annotations

import logging
from itertools import permutations
from types import SimpleNamespace
from typing import cast

import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.data.data_source import DataSpec
from headtohead.finished_runs.evaluation.evaluation_request import _check_class_names, _check_label_words
from headtohead.finished_runs.finished_run import FinishedRun

TRAINED = ("neg", "neutral", "pos")
NAMES = (*TRAINED, "other", "0")


@pytest.mark.parametrize("names", sorted(permutations(NAMES, 3)), ids="-".join)
def test_a_class_of_another_number_is_refused(names: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> None:
    run = cast(FinishedRun, SimpleNamespace(record=SimpleNamespace(data={"classes": TRAINED})))
    spec = cast(DataSpec, SimpleNamespace(class_names=names))
    config = {"data": {"_target_": "x", "class_names": None}}
    has_moved = any(theirs != ours and theirs in names for theirs, ours in zip(TRAINED, names, strict=True))
    if has_moved:
        with pytest.raises(ConfigurationError, match="in another order: give data"):
            _check_class_names(run, config, spec, "data=csv")
        return
    with caplog.at_level(logging.WARNING):
        _check_class_names(run, config, spec, "data=csv")
    assert ("matched in this order" in caplog.text) is (names != TRAINED)


@pytest.mark.parametrize("words", sorted(permutations(NAMES, 2)), ids="-".join)
def test_labels_that_a_run_never_wrote_are_refused_and_their_order_is_none(words: tuple[str, ...]) -> None:
    run = cast(FinishedRun, SimpleNamespace(record=SimpleNamespace(data={"classes": TRAINED})))
    spec = cast(DataSpec, SimpleNamespace(label_words=words))
    if set(words) <= set(TRAINED):
        _check_label_words(run, spec, "data=text_to_text")
        return
    with pytest.raises(ConfigurationError, match=r"not learned to write, .*: give data of the same labels"):
        _check_label_words(run, spec, "data=text_to_text")
