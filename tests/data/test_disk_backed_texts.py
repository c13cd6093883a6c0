"""Texts of large sets, kept outside memory while they are prepared."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.batches import disk_backed_texts
from headtohead.data.batches.disk_backed_texts import DiskBackedPairs, DiskBackedTexts, Origins, selected_samples
from headtohead.data.cache import parallel_map
from headtohead.data.cache.arrow_columns import ragged
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.row_formats.language_rows import LanguageFormat
from headtohead.data.row_formats.text_pairs import PairFormat
from headtohead.data.row_formats.text_source import RowFormat, TextSource
from headtohead.data.sources import columns, parquet_files, table_files
from headtohead.data.sources.hub.hub_corpora import HubCorpus
from headtohead.data.sources.hub.hub_tables import HubTables
from headtohead.data.tokenizers import tokenization_facts
from published_sets.writing import write_parquet

STRANGE = ["", "a", "\n\r\0", "ünï", "無 😀", "x" * 300, "e\u0301", "\u2028 "]
NUM_PAIRS, NUM_STORIES = 900, 1_000


@pytest.fixture(params=["in memory", "on disk"])
def saved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DiskBackedTexts:
    monkeypatch.setattr(disk_backed_texts, "_AT_ONCE", 3)
    if request.param == "on disk":
        monkeypatch.setattr(disk_backed_texts, "_IN_MEMORY", 4)
    texts = DiskBackedTexts()
    for text in STRANGE:
        texts.append(text)
    return texts


def test_kept_texts_are_those_that_were_given(saved: DiskBackedTexts) -> None:
    assert list(saved) == list(saved) == STRANGE and len(saved) == len(STRANGE)
    assert [saved[row] for row in (5, 0, 7, -1, 3)] == [STRANGE[row] for row in (5, 0, 7, -1, 3)]
    with pytest.raises(IndexError):
        saved[len(STRANGE)]
    assert list(zip(saved, saved, strict=True)) == list(zip(STRANGE, STRANGE, strict=True))


def test_kept_texts_are_chosen_without_being_read(saved: DiskBackedTexts) -> None:
    indices = np.array([1, 4, 5])
    result = selected_samples(saved, indices)
    assert not isinstance(result, list) and list(result) == [STRANGE[index] for index in indices] == list(result)
    assert selected_samples(STRANGE, indices) == list(result)


def test_more_texts_after_the_first_look_are_refused_rather_than_written_over_others(saved: DiskBackedTexts) -> None:
    assert saved[0] == ""
    with pytest.raises(AssertionError, match="before any is looked at"):
        saved.append("more")


def test_pairs_and_origins_come_back_row_by_row() -> None:
    pairs, origins = DiskBackedPairs(), Origins()
    expected = list(zip(STRANGE, reversed(STRANGE), strict=True))
    numbered = [("a.csv", 1), ("a.csv", 7), ("b.csv", 2), ("a.csv", 3)]
    for pair in expected:
        pairs.append(pair)
    for origin in numbered:
        origins.append(origin)
    assert list(pairs) == expected and [pairs[row] for row in range(-8, 8)] == 2 * expected
    assert list(origins) == numbered and list(selected_samples(origins, np.array([1, 3]))) == [
        ("a.csv", 7),
        ("a.csv", 3),
    ]


class Full(BytesIO):
    """A file on a disk without room."""

    def close(self) -> None:
        super().close()
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.slow
def test_a_full_disk_is_not_told_again_when_texts_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_backed_texts, "_IN_MEMORY", 4)
    monkeypatch.setattr(disk_backed_texts, "_on_disk", lambda content: Full(content))
    message: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", message.append)
    monkeypatch.setattr(sys, "excepthook", lambda *provided: message.append(provided))
    texts = DiskBackedTexts()
    texts.append("longer than memory")
    del texts
    gc.collect()
    assert not message


def pair_of(number: int) -> dict[str, Any]:
    english = f"Sentence {number} is about {number * 7919 % 1009} things" + " and more" * (number % 40)
    german = (
        ""
        if number % 97 == 0
        else f"Satz {number} handelt von {number * 7919 % 1009} Dingen – größer" * (1 + number % 3)
    )
    return {"translation": {"de": german, "en": english}}


def story_of(number: int) -> dict[str, str]:
    return {
        "text": " " if number % 89 == 0 else f"Story {number}.\n" + f"Lily saw {number % 13} cats. " * (number % 30)
    }


def translations(folder: Path) -> HubTables:
    """Write files like those of WMT14, with blank sides too."""
    write_parquet(folder / "train-00000-of-00001.parquet", [pair_of(number) for number in range(NUM_PAIRS)])
    for split, start in {"validation": NUM_PAIRS, "test": NUM_PAIRS + 30}.items():
        write_parquet(folder / f"{split}-00000-of-00001.parquet", [pair_of(start + row) for row in range(30)])
    return from_fields(
        HubTables,
        folder=str(folder),
        source_column="translation.en",
        target_column="translation.de",
        vocab_size=300,
        max_length=40,
    )


def stories(folder: Path) -> HubCorpus:
    """Write files like those of TinyStories; validation is a share of train."""
    write_parquet(folder / "train-00000-of-00001.parquet", [story_of(number) for number in range(NUM_STORIES)])
    rows = [story_of(NUM_STORIES + row) for row in range(40)]
    write_parquet(folder / "validation-00000-of-00001.parquet", rows)
    return from_fields(
        HubCorpus,
        folder=str(folder),
        validation_split="share",
        test_split="validation",
        vocab_size=300,
        context_length=16,
    )


Make = Callable[[Path], TextSource]
both_kinds = pytest.mark.parametrize("make", [translations, stories])


def in_small_pieces(patch: pytest.MonkeyPatch) -> None:
    """Make every function that processes rows together take few, as if the set were large."""
    patch.setattr(disk_backed_texts, "_IN_MEMORY", 1000)
    patch.setattr(disk_backed_texts, "_AT_ONCE", 5)
    patch.setattr(parquet_files, "_ROWS", 7)
    patch.setattr(parallel_map, "_PIECE", 2000)
    patch.setattr(parallel_map, "_WORTH_IT", 2000)


def in_lists(patch: pytest.MonkeyPatch) -> None:
    """Hold all samples in memory, as other kinds of data do."""
    for form in (PairFormat, LanguageFormat):
        patch.setattr(form, "new_samples", RowFormat.new_samples)


@both_kinds
@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.process
def test_what_is_prepared_in_pieces_is_what_is_prepared_from_lists_at_once(
    make: Make, processes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_lists(monkeypatch)
    monkeypatch.setattr(parquet_files, "_ROWS", 10**6)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "at once"))
    at_once = make(tmp_path / "set")
    lists, content = at_once.samples(), at_once.content
    assert all(isinstance(lists[name], list) for name in SPLIT_NAMES)
    monkeypatch.undo()

    in_small_pieces(monkeypatch)
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", processes)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "in pieces"))
    source = make(tmp_path / "set")
    samples = source.samples()
    assert {name: list(samples[name]) for name in SPLIT_NAMES} == lists
    assert not any(isinstance(samples[name], list) for name in SPLIT_NAMES)
    assert source.content.digest == content.digest and source.provenance() == at_once.provenance()
    assert {file.name for file in (tmp_path / "in pieces").iterdir()} <= {".locks", "hub", "hub_corpus", "tokenizers"}


@pytest.mark.process
def test_pairs_in_pieces_are_cut_and_counted_as_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expectation tokenizes each pair by itself; 40 positions are for the two borders and 38 tokens."""
    in_small_pieces(monkeypatch)
    source = translations(tmp_path)
    encode = source.tokenizer.encode_one
    pairs = [pair_of(number)["translation"] for number in range(NUM_PAIRS)]
    whole = [(encode(pair["en"]), encode(pair["de"])) for pair in pairs if pair["de"]]
    table = source.content.tables["train"]
    assert [row.tolist() for row in rows(table, "source")] == [english[:38] for english, _ in whole]
    special = source.tokenizer.special
    expected = [[special.bos, *german[:38], special.eos] for _, german in whole]
    assert [row.tolist() for row in rows(table, "target")] == expected
    share = sum(max(map(len, pair)) > 38 for pair in whole) / len(whole)
    assert 0 < share < 1 and source.content.facts["cutting"]["cut_share"]["train"] == share


def rows(table: Any, column: str) -> Iterator[np.ndarray]:
    result = ragged(table, column)
    return (result[row] for row in range(len(result)))


class Counted(str):
    """A text that is counted for as long as somebody holds it, or a piece of it."""

    alive, most = 0, 0

    def __init__(self, text: str) -> None:
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1

    def __getitem__(self, position: Any) -> Counted:
        return Counted(super().__getitem__(position))


def count_texts(patch: pytest.MonkeyPatch) -> None:
    """Count the texts that are read from files, and those that are read back from disk."""
    read, come_back = columns.sample_of, DiskBackedTexts._read

    def sample_of(*provided: Any) -> Any:
        sample = read(*provided)
        return Counted(sample) if isinstance(sample, str) else tuple(map(Counted, sample))

    def counted(saved: DiskBackedTexts, start: int, number: int) -> Sequence[str]:
        return [Counted(text) for text in come_back(saved, start, number)]

    patch.setattr(table_files, "sample_of", sample_of)
    patch.setattr(DiskBackedTexts, "_read", counted)
    patch.setattr(Counted, "most", 0)


@pytest.mark.slow
@both_kinds
@pytest.mark.parametrize("as_lists", [False, True])
def test_nothing_holds_all_texts_while_they_are_prepared(
    make: Make, as_lists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library that learns tokenizers takes 256 texts at once. With texts in lists, the count shows all of them."""
    in_small_pieces(monkeypatch)
    monkeypatch.setattr(tokenization_facts, "_MOST", 500)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", "1")
    if as_lists:
        in_lists(monkeypatch)
    count_texts(monkeypatch)
    source = make(tmp_path)
    source.prepare()
    texts = sum(
        len(ragged(source.content.tables[name], column)) for name in SPLIT_NAMES for column in columns_of(source)
    )
    assert Counted.most >= texts if as_lists else 8 < Counted.most < 400 < texts / 2, Counted.most


def columns_of(source: TextSource) -> Sequence[str]:
    return ("source", "target") if source.form.kind == "pairs_of_text" else ("tokens",)
