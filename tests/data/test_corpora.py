"""Published corpora from their raw files to documents: put together, cut, and none of it lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from from_fields import from_fields
from headtohead.config.compose.composition import compose
from headtohead.config.origins.from_weights import build_data
from headtohead.data.cache.arrow_columns import ragged
from headtohead.data.data_source import DataError, SplitName
from headtohead.data.sources.hub.hub_corpora import HubCorpus, articles, is_title
from published_sets.corpora import SETS, article_lines


def corpus(name: str, folder: Path, *more: str) -> HubCorpus:
    SETS[name](folder)
    source = build_data(compose("train", [f"data={name}", f"data.folder={folder}", *more]))
    assert isinstance(source, HubCorpus)
    return source


def documents(source: HubCorpus, split: SplitName) -> list[str]:
    tokens = ragged(source.content.tables[split], "tokens")
    return [source.decode(tokens[row].tolist()) for row in range(len(tokens))]


def raw(folder: Path, pattern: str) -> list[str]:
    """Return the column as it is in the files."""
    return [text for file in sorted(folder.rglob(pattern)) for text in parquet.read_table(file)["text"].to_pylist()]


@pytest.mark.parametrize("name", ["wikitext2", "wikitext103"])
def test_lines_of_wikitext_are_articles_across_files(tmp_path: Path, name: str) -> None:
    source = corpus(name, tmp_path)
    message = {"train": range(40), "validation": range(40, 46), "test": range(46, 52)}
    for split, numbers in message.items():
        expected = ["".join(article_lines(number)) for number in numbers]
        assert documents(source, split) == expected  # type: ignore[arg-type]
        assert "".join(expected) == "".join(raw(tmp_path, f"{split}-*.parquet"))


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        (" = Valkyria Chronicles III = \n", True),
        (" = = Gameplay = = \n", False),
        (" = = = Combat system = = = \n", False),
        (" = 1 + 1 = 2 = \n", True),
        (" A line with = in it . \n", False),
        (" = \n", False),
        ("", False),
    ],
)
def test_titles_have_one_sign_on_each_side(line: str, begins: bool) -> None:
    assert is_title(line) == begins


def test_what_stands_before_the_first_title_is_a_document_too() -> None:
    assert list(articles([" before . \n", " = A = \n", " x . \n", " = = b = = \n"])) == [
        " before . \n",
        " = A = \n x . \n = = b = = \n",
    ]
    assert list(articles([])) == []


def test_enwik8_is_cut_by_bytes_and_no_character_is_split(tmp_path: Path) -> None:
    source = corpus("enwik8", tmp_path)
    (whole,) = raw(tmp_path / "enwik8-raw", "*.parquet")
    text = whole.encode()
    splits = [ragged(source.content.tables[name], "tokens") for name in ("train", "validation", "test")]
    assert [len(tokens) for tokens in splits] == [1, 1, 1]
    parts = [bytes(token - 5 for token in tokens.values[1:-1].tolist()) for tokens in splits]
    assert b"".join(parts) == text
    for part, share in zip(parts, (0.9, 0.05, 0.05), strict=True):
        part.decode()
        assert abs(len(part) - share * len(text)) < 8


def test_cut_in_percent_is_exact_where_characters_are_bytes(tmp_path: Path) -> None:
    source = from_fields(HubCorpus, folder=str(tmp_path), cut=[90, 5, 5], tokenizer="byte")
    parts = source._cut_by_bytes("abcdefghij" * 1000)
    assert [len(parts[name][0]) for name in ("train", "validation", "test")] == [9_000, 500, 500]


@pytest.mark.slow
def test_stories_of_validation_are_the_test_and_train_gives_the_validation(tmp_path: Path) -> None:
    source = corpus("tinystories", tmp_path)
    train, held_out = raw(tmp_path, "train-*.parquet"), raw(tmp_path, "validation-*.parquet")
    result = {name: documents(source, name) for name in ("train", "validation", "test")}  # type: ignore[arg-type]
    assert result["test"] == held_out
    assert sorted(result["train"] + result["validation"]) == sorted(train) and len(result["validation"]) == 2


@pytest.mark.parametrize("name", ["tiny_shakespeare", "text8"])
def test_bytes_of_the_test_rows_are_those_of_the_raw_file(tmp_path: Path, name: str) -> None:
    """Bits per byte divide by these bytes."""
    source = corpus(name, tmp_path, "data.context_length=64")
    (text,) = raw(tmp_path, "test-*.parquet")
    split = source.split("test")
    batch = split.batch(np.arange(len(split)))
    assert len(split) == (len(text) + 1) // 64 and batch.num_bytes is not None
    assert int(batch.num_bytes) == len(text[: 64 * len(split)].encode())


@pytest.mark.slow
def test_languages_of_the_stack_are_its_folders(tmp_path: Path) -> None:
    source = corpus("the_stack", tmp_path, "data.context_length=32")
    assert all(text.startswith("#") for text in documents(source, "test"))
    rust = corpus("the_stack", tmp_path, "data.context_length=32", "data.subset=data/rust")
    assert all(text.startswith("//") for text in documents(rust, "test"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"documents": "page"}, "data.documents=page is unknown: choose one of row, article"),
        ({"cut": [90, 5]}, r"data.cut=\[90, 5\] must be three numbers above 0"),
        ({"cut": [90, 5, 6]}, "that make 100 together"),
        ({"cut": [100, 0, 0]}, "must be three numbers above 0"),
    ],
)
def test_a_wrong_field_is_refused_in_one_sentence(fields: dict[str, object], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        from_fields(HubCorpus, folder="somewhere", **fields)  # type: ignore[arg-type]
