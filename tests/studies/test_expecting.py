"""Expectations that can be false: a verdict by name, and how large a difference may be."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.comparison.contrasts import Contrast
from headtohead.config.compose.choices import choice_names
from headtohead.config.errors import ConfigurationError
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.definition.study import VERDICTS
from headtohead.studies.definition.study_fields import unexpected
from single_verdict import verdict_of
from studies.small_studies import small_study

WORSE = verdict_of(
    {"b": {0: 2.2, 1: 2.31, 2: 2.38}, "a": {0: 2.0, 1: 2.1, 2: 2.2}},
    Contrast("b", "a"),
    "min",
    registered_seeds=range(3),
)


@pytest.mark.parametrize(
    "expected",
    [["worse"], ["undecided", "worse"], ["difference > 0.1"], ["worse", "difference > 0.1", "difference < 1"]],
)
def test_what_was_expected_is_no_surprise(expected: list[str]) -> None:
    assert unexpected(WORSE, expected) is None


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (["better", "undecided"], "not as expected: b was expected to be better or undecided, and is worse"),
        (["worse", "difference > 0.5"], "to be worse and to have a difference > 0.5, and is worse by 0.197"),
        (["difference < -0.1"], "was expected to have a difference < -0.1, and is worse by 0.197"),
    ],
)
def test_a_surprise_says_what_was_expected_and_what_is(expected: list[str], message: str) -> None:
    assert message in str(unexpected(WORSE, expected))


@pytest.mark.parametrize("entry", ["good", "difference > much", "difference = 0.1", 0.1])
def test_what_could_not_be_checked_is_refused(entry: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"expected=.* is refused.*difference < 0.1"):
        small_study(expected={"b": [entry]})


@pytest.mark.parametrize("name", choice_names("study"))
def test_what_a_shipped_study_expects_can_fail(name: str) -> None:
    """Either a verdict on one side alone, or none on any side, or a bound."""
    for entries in read_study(name).expected.values():
        kinds = {entry for entry in entries if entry in VERDICTS}
        decided, open_ended = kinds & {"better", "worse"}, kinds & {"undecided", "equivalent"}
        assert kinds < set(entries) or not (decided and open_ended), entries
