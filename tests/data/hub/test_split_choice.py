"""Published splits become ours by the configuration and by their names."""

from __future__ import annotations

from typing import cast

import pytest

from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.repository_listing import RepositoryFile
from headtohead.data.sources.hub.split_choice import chosen_splits


def chosen(names: str, **provided: str) -> dict[str, str | None]:
    splits = {name: (RepositoryFile(f"{name}.parquet"),) for name in names.split()}
    options = {name: provided.get(name) for name in SPLIT_NAMES}
    result = chosen_splits(DatasetReference("any/set", None, None, None), options, splits)
    return cast("dict[str, str | None]", result)


@pytest.mark.parametrize(
    ("names", "provided", "expected"),
    [
        ("train validation test", {}, ("train", "validation", "test")),
        ("train validation test", {"test": "validation"}, ("train", None, "validation")),
        ("train test", {"validation": "test"}, ("train", "test", None)),
        ("train dev test", {"train": "test"}, ("test", "dev", None)),
        ("train validation test", {"test": "validation", "validation": "test"}, ("train", "test", "validation")),
        ("train extra test", {"validation": "extra"}, ("train", "extra", "test")),
        ("train validation", {"test": "share", "validation": "share"}, ("train", None, None)),
        ("test", {}, ("test", None, None)),
    ],
)
def test_what_is_given_to_one_is_no_guess_for_another(
    names: str, provided: dict[SplitName, str], expected: tuple[str | None, ...]
) -> None:
    assert chosen(names, **provided) == dict(zip(("train", "validation", "test"), expected, strict=True))


def test_what_is_given_to_two_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"test_split=test is what data.validation_split=test reads too.*test_split=share"
    ):
        chosen("train test", validation="test", test="test")
