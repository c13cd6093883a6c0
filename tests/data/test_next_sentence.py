"""Pairs from local text: half in a row, half not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.generated.stories import NEXT, RANDOM
from headtohead.data.sources.text_files import NextSentence


def written(folder: Path, *, documents: int, sentences: int = 12) -> Path:
    """Write sentences that name their document and their position."""
    root = folder / "texts"
    root.mkdir()
    for document in range(documents):
        text = " ".join(f"Here {document} says {index}." for index in range(sentences))
        (root / f"{document:03}.txt").write_text(text, encoding="utf-8")
    return root


def origin(sentence: str) -> tuple[int, int]:
    words = sentence.removesuffix(".").split()
    return int(words[1]), int(words[3])


def test_half_of_the_pairs_follow_each_other_and_half_come_from_another_document(tmp_path: Path) -> None:
    source = from_fields(NextSentence, path=str(written(tmp_path, documents=40)), test_share=0.1, validation_share=0.1)
    owners: list[set[int]] = []
    for pairs in source.samples().values():
        labels = [label for *_, label in pairs]
        assert abs(labels.count(NEXT) - labels.count(RANDOM)) <= 1
        for first, second, label in pairs:
            (document, index), (other, later) = origin(first), origin(second)
            assert (document, index + 1) == (other, later) if label == NEXT else document != other
        owners.append({origin(text)[0] for first, second, _ in pairs for text in (first, second)})
    assert not (owners[0] & owners[1] or owners[0] & owners[2] or owners[1] & owners[2])
    assert len(source.samples()["train"]) == 32 * 11


def test_pairs_that_do_not_follow_in_a_document_alone_are_from_elsewhere_in_it(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("\n".join(f"Here 0 says {index}." for index in range(300)))
    pairs = from_fields(NextSentence, path=str(path), sentences="line").samples()["train"]
    seconds = {origin(second)[1] for _, second, label in pairs if label == RANDOM}
    for first, second, label in pairs:
        index, later = origin(first)[1], origin(second)[1]
        assert (later == index + 1) if label == NEXT else later not in (index, index + 1)
    assert len(seconds) > 50


def test_random_sentences_come_from_all_other_documents(tmp_path: Path) -> None:
    pairs = from_fields(NextSentence, path=str(written(tmp_path, documents=30, sentences=30))).samples()["train"]
    drawn = {origin(second)[0] for _, second, label in pairs if label == RANDOM}
    assert drawn == {origin(first)[0] for first, *_ in pairs}


def test_several_sentences_make_a_side(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(" ".join(f"Here 0 says {index}!" for index in range(300)))
    first, second, _ = next(
        pair
        for pair in from_fields(NextSentence, path=str(path), sentences_per_side=3).samples()["train"]
        if pair[2] == NEXT
    )
    assert first.count("!") == second.count("!") == 3


@pytest.mark.parametrize(
    ("ends", "sides"),
    [
        ("punctuation", ["A one. B", "two? C three", "D four"]),
        ("line", ["A one. B", "two? C three", "D four"]),
        ("paragraph", ["A one. B two? C three", "D four"]),
    ],
)
def test_sentences_end_where_requested(tmp_path: Path, ends: Any, sides: list[str]) -> None:
    path = tmp_path / "book.txt"
    path.write_text("x")
    text = "A one. B\ntwo?  C three\n\nD four"
    result = from_fields(NextSentence, path=str(path), sentences=ends)._sides(text)
    if ends == "punctuation":
        sides = ["A one.", "B two?", "C three", "D four"]
    assert result == sides


def test_rows_are_pairs_with_token_types_no_longer_than_requested(tmp_path: Path) -> None:
    source = from_fields(NextSentence, path=str(written(tmp_path, documents=30)), max_length=16)
    for name in SPLIT_NAMES:
        batch = source.split(name).batch(np.arange(len(source.split(name))))
        assert batch.token_types is not None and batch.tokens is not None
        assert batch.tokens.shape[1] <= 16 and int(batch.token_types.max()) == 1


def test_text_without_two_sentences_in_a_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"Only {number}.\n" for number in range(100)))
    with pytest.raises(DataError, match=r"lines.txt has no two sentences in a row for the train split"):
        from_fields(NextSentence, path=str(path), documents="line").prepare()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"sentences": "word"}, "data.sentences=word is unknown: choose one of punctuation, line, paragraph"),
        ({"sentences_per_side": 0}, "data.sentences_per_side=0 must be at least 1"),
        ({"max_length": 4}, "data.max_length=4 must be at least 8"),
        ({"path": None}, "data.path is missing"),
    ],
)
def test_senseless_choices_are_refused(tmp_path: Path, chosen: dict[str, Any], message: str) -> None:
    (tmp_path / "book.txt").write_text("A. B. C.")
    with pytest.raises(DataError, match=message):
        from_fields(NextSentence, **{"path": str(tmp_path / "book.txt"), **chosen})
