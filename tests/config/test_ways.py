"""Two runs are known to translate in the same direction, or are not."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.config.run_translator import translation_direction_of


def table(source: str | None, target: str | None, path: str = "/here/pairs.csv", **more: Any) -> dict[str, Any]:
    return {"path": path, "source_column": source, "target_column": target, **more}


def endings(source: str, target: str, path: str) -> dict[str, Any]:
    return {"path": path, "source": source, "target": target}


def published(source: str, target: str, name: str, subset: str | None = None) -> dict[str, Any]:
    return {"name": name, "subset": subset, "folder": None, "source_column": source, "target_column": target}


ENGLISH_TO_GERMAN = published("translation.en", "translation.de", "wmt/wmt14", "de-en")
OWN = table("source", "target")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(OWN, table("source", "target"), id="the same columns of the same file"),
        pytest.param(OWN, table("source", "other"), id="another target that is read from the same source"),
        pytest.param(OWN, table("other", "target"), id="another source of the same target"),
        pytest.param(table(None, None), table(None, None), id="columns that the same file tells by itself"),
        pytest.param(table("en", "de"), table("en", "de", "/there.csv"), id="languages as columns of other files"),
        pytest.param(ENGLISH_TO_GERMAN, endings("en", "de", "/there"), id="a published set, and endings of files"),
        pytest.param(ENGLISH_TO_GERMAN, published("en", "de", "bentrevett/multi30k"), id="two published sets"),
        pytest.param(ENGLISH_TO_GERMAN, table("fr", "de", "/there.csv"), id="from another language to the same one"),
        pytest.param(table("eng_Latn", "deu_Latn"), table("eng_Latn", "deu_Latn", "/there"), id="tags with scripts"),
        pytest.param({"direction": "to_words"}, {"direction": "to_words"}, id="numerals to words"),
    ],
)
def test_what_goes_the_same_way_is_known(one: dict[str, Any], other: dict[str, Any]) -> None:
    ways = translation_direction_of(one), translation_direction_of(other)
    assert None not in ways
    assert ways[0].is_known_to_meet(ways[1]) and ways[1].is_known_to_meet(ways[0])  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(OWN, table("target", "source"), id="the same file backwards"),
        pytest.param(OWN, table("source", "target", "/swapped.csv"), id="roles that another file may give otherwise"),
        pytest.param(endings("src", "tgt", "/a"), endings("src", "tgt", "/b"), id="roles as endings of files"),
        pytest.param(OWN, table("german", "english", "/there.csv"), id="columns of other names"),
        pytest.param(
            table("a", "b", column_names=["a", "b"]),
            table("a", "b", column_names=["b", "a"]),
            id="one file without names, named in two ways",
        ),
        pytest.param(ENGLISH_TO_GERMAN, table("de", "en"), id="languages backwards"),
        pytest.param(ENGLISH_TO_GERMAN, published("translation.de", "translation.en", "x/y"), id="published backwards"),
        pytest.param(table(None, None), table(None, None, "/there.csv"), id="columns that other files tell themselves"),
        pytest.param(
            table("zh-Hans", "zh-Hant"), table("zh-Hant", "zh-Hans", "/there"), id="two scripts of a language"
        ),
        pytest.param({"direction": "to_words"}, {"direction": "to_digits"}, id="words to numerals"),
    ],
)
def test_what_may_go_back_is_not_refused(one: dict[str, Any], other: dict[str, Any]) -> None:
    ways = translation_direction_of(one), translation_direction_of(other)
    assert None not in ways
    assert not ways[0].is_known_to_meet(ways[1])  # type: ignore[union-attr,arg-type]
    assert not ways[1].is_known_to_meet(ways[0])  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize("data", [{"direction": "both"}, {"path": "/corpus.txt"}, {"of": {"text_column": "text"}}])
def test_of_other_data_nothing_is_known(data: dict[str, Any]) -> None:
    assert translation_direction_of(data) is None
