"""Rows of validation and test that stand in train: found in every kind of data, said, and taken out where asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.hub.test_published_sets import PUBLISHED, repository
from data.small_sources import NAMES, small_source
from data.streaming.test_streaming import written as written_stream
from from_fields import from_fields
from headtohead.config.compose.composition import compose
from headtohead.config.origins.from_weights import build_data
from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.row_formats.text_source import TextSource
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.text_files import TextFiles
from headtohead.data.sources.text_to_text import TextToText
from headtohead.data.splits.leaks import Matches, expected_repeats, leaks_between, stretches, texts_of_row, without
from headtohead.data.streaming.streamed_corpus import StreamedCorpus
from headtohead.data.streaming.streamed_images import StreamedImages
from headtohead.records.leaks import leak_sentence, leak_share, repeats_sentence

__all__ = ["repository"]
PLANTED = 3
SENTENCE = "the cat {0} sat on the mat {1} and the dog {2} saw it from afar while nobody {3} was looking at all"


def planted(source: CachedSource, monkeypatch: pytest.MonkeyPatch) -> CachedSource:
    """Replace the first train rows by the first rows of test or validation."""
    if isinstance(source, StreamedImages):
        _plant_measured(source, monkeypatch)
    elif isinstance(source, TextSource):
        samples = source.samples

        def with_a_leak() -> dict[str, Any]:
            own: dict[str, Any] = dict(samples())
            test, train = own["test"], own["train"]
            first = [test[row] for row in range(min(PLANTED, len(test)))]
            return {**own, "train": [*first, *(train[row] for row in range(len(first), len(train)))]}

        monkeypatch.setattr(source, "samples", with_a_leak)
    else:
        make = source.make
        monkeypatch.setattr(source, "make", lambda: _leaking(make()))
    return source


def _plant_measured(source: StreamedImages, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, seen = source._decoded, []

    def with_a_leak(rows: Any, classes: Any) -> Any:
        seen.append(decoded(rows, classes))
        if len(seen) == 2:
            seen[1]["image"][:PLANTED] = seen[0]["image"][:PLANTED]
        return seen[-1]

    monkeypatch.setattr(source, "_decoded", with_a_leak)


def _leaking(made: PreparedContent) -> PreparedContent:
    tables = {name: dict(table) for name, table in made.tables.items()}
    if "place" in tables["train"]:
        splits = made.facts["splits"]
        few = min(PLANTED, len(made.tables["test"]["place"]))
        indices = {name: np.asarray(tables[name]["place"])[:few] for name in ("train", "test")}
        images = np.array(tables[splits["train"]]["image"])
        images[indices["train"]] = np.asarray(tables[splits["test"]]["image"])[indices["test"]]
        tables[splits["train"]]["image"] = images
        return replace(made, tables=tables)
    for name, column in tables["train"].items():
        rows = [tables["test"][name][row] for row in range(PLANTED)]
        rows += [column[row] for row in range(PLANTED, len(column))]
        if isinstance(column, Ragged):
            tables["train"][name] = Ragged.of_lengths(np.concatenate(rows), np.array([len(row) for row in rows]))
        else:
            tables["train"][name] = np.stack(rows)
    return replace(made, tables=tables)


def found_by(source: CachedSource, monkeypatch: pytest.MonkeyPatch) -> None:
    leaks = planted(source, monkeypatch).leaks()
    split = "validation" if isinstance(source, StreamedImages) else "test"
    planned = min(PLANTED, leaks[split]["rows"])
    assert leaks[split]["exactly"] >= planned > 0 and leaks["train"]["held_out"] >= planned
    message = repeats_sentence(leaks) if source.draws_its_rows else leak_sentence(leaks)
    assert message is not None and (leak_share(leaks) == 0) == source.draws_its_rows
    if not source.draws_its_rows:
        assert [word for word in message.replace("=", "(").split("(") if "drop_shared" in word] == (
            [field] if (field := source.drop_field) else []
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_leak_that_is_planted_is_found_in_data_of_ones_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    source = small_source(name, tmp_path)
    assert isinstance(source, CachedSource)
    found_by(source, monkeypatch)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_leak_that_is_planted_is_found_in_published_sets(
    name: str, tmp_path: Path, repository: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    small = ["data.num_validation=5", "data.num_test=5", "data.num_learned=20"]
    streamed = PUBLISHED[name]["_target_"].endswith("StreamedCorpus")
    folder = repository(name)
    source = build_data(compose("train", [f"data={name}", f"data.folder={folder}", *(small if streamed else [])]))
    assert isinstance(source, CachedSource)
    found_by(source, monkeypatch)


def test_a_leak_that_is_planted_is_found_in_streams_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written_stream(tmp_path / "stream")
    source = from_fields(StreamedCorpus, folder=str(folder), num_validation=7, num_test=9, num_learned=40)
    assert not source.leaks()["test"]["in_train"] and source.leaks()["of_all"] is False
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    found_by(from_fields(StreamedCorpus, folder=str(folder), num_validation=7, num_test=9, num_learned=40), monkeypatch)


CAN_DROP = [
    "digits", "conll", "csv", "hub", "hub_images", "hub_corpus", "image_folder", "json", "next_sentence",
    "parallel_text", "parquet", "text",
]  # fmt: skip


@pytest.mark.parametrize("name", CAN_DROP)
def test_what_is_held_out_is_taken_out_of_train_where_that_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    whole = planted(small_source(name, tmp_path), monkeypatch)
    options = small_source(name, tmp_path)
    assert isinstance(options, CachedSource) and isinstance(whole, CachedSource)
    options.drop_shared = True
    left = planted(options, monkeypatch)
    assert whole.leaks()["test"]["in_train"] and not left.leaks()["test"]["in_train"]
    assert len(left.split("train")) < len(whole.split("train"))
    assert left.leaks()["test"]["rows"] == whole.leaks()["test"]["rows"]
    assert left.spec().data_hash != whole.spec().data_hash


def test_every_choice_that_can_leak_can_drop() -> None:
    """Generated rows repeat as their space has it, and streams leave out what is held out anyway."""
    import yaml

    from data.small_sources import CONF

    having = [path.stem for path in CONF.glob("*.yaml") if "drop_shared" in yaml.safe_load(path.read_text())]
    assert sorted(having) == sorted(CAN_DROP)


def test_texts_in_words_name_the_field_of_the_texts_that_they_are_made_of(tmp_path: Path) -> None:
    of = table(tmp_path, ["a good film,yes", "a bad film,no"], ["a good film,yes"])
    assert from_fields(TextToText, of=of, tokenizer="char").leaks()["drop_field"] == "data.of.drop_shared"


def table(folder: Path, train: list[str], test: list[str]) -> CsvFiles:
    for name, rows in (("train", train), ("dev", ["some other words,no"]), ("test", test)):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows, ""]), encoding="utf-8")
    return from_fields(CsvFiles, path=str(folder), tokenizer="char")


def test_rows_that_differ_in_case_and_white_space_are_found_and_distinguished_from_exact_ones(tmp_path: Path) -> None:
    source = table(tmp_path, ["A  good film,yes", "a bad film,no", "other,no"], ["a good FILM,yes", "a bad film,no"])
    assert source.leaks()["test"] == {"rows": 2, "in_train": 2, "exactly": 1}
    assert leak_sentence(source.leaks()) == (
        "2 of 2 test rows (1 exactly, the others but for case, white space or order) also occur in train: what is "
        "measured on them may have been memorised (data.drop_shared=true removes them from train)"
    )


def test_pairs_are_found_the_other_way_round() -> None:
    rows = {"train": [("b", "a"), ("c", "d")], "validation": [("x", "y")], "test": [("a", "b"), ("a", "c")]}
    result = leaks_between(rows, texts_of_row)
    assert result["test"] == {"rows": 2, "in_train": 1, "exactly": 0} and not result["validation"]["in_train"]


def text_of(generator: np.random.Generator, words: int) -> str:
    return " ".join(f"w{number}" for number in generator.integers(1000, size=words))


def test_a_stretch_of_a_long_text_is_found_wherever_it_occurs() -> None:
    generator = np.random.default_rng(0)
    held_out, before, after = (text_of(generator, 2000) for _ in range(3))
    train = f"{before} {held_out[4000:8000].upper()} {after}"
    result = leaks_between({"train": [train], "validation": [before[:500]], "test": [held_out]}, stretches)
    share = 4000 / len(held_out)
    assert result["test"]["in_train"] / result["test"]["rows"] == pytest.approx(share, abs=0.12)
    assert not result["test"]["exactly"], "it stands there in capitals"
    assert result["validation"]["in_train"] >= result["validation"]["rows"] - 1


def test_stretches_of_a_script_without_blanks_are_found_too() -> None:
    generator = np.random.default_rng(0)
    held_out, other = ("".join(chr(0x4E00 + n) for n in generator.integers(5000, size=3000)) for _ in range(2))
    result = leaks_between({"train": [other + held_out[1000:]], "validation": [], "test": [held_out]}, stretches)
    assert 0.4 < result["test"]["in_train"] / result["test"]["rows"] < 0.9


def test_nothing_but_what_is_held_out_is_taken_out_of_a_long_text() -> None:
    generator = np.random.default_rng(1)
    held_out, own = text_of(generator, 1000), text_of(generator, 1000)
    matches = Matches.of({"test": [held_out]}, stretches)
    left = without(f"{own} {held_out}", matches)
    assert len(own) - 600 < len(left) < len(own) + 600 and without(own, matches) == own
    assert "".join(part for part in [left]) != f"{own} {held_out}"


def test_drawn_rows_repeat_about_as_often_as_is_expected_of_their_space() -> None:
    generator = np.random.default_rng(0)
    sizes = {"train": 400, "test": 300}
    draws = {name: [str(number) for number in generator.integers(500, size=size)] for name, size in sizes.items()}
    pieces = lambda row: ((row, row),)  # noqa: E731
    expected = expected_repeats(draws["train"], pieces, {"test": 300})["test"]
    result = leaks_between({**draws, "validation": []}, pieces)["test"]["in_train"]
    assert result == pytest.approx(300 * (1 - (1 - 1 / 500) ** 400), rel=0.1)
    assert expected == pytest.approx(result, rel=0.15)


def test_what_is_said_of_rows_changes_no_hash_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of before are compared with those of today."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "one"))
    (tmp_path / "texts").mkdir()
    lines = "".join(f"line {number} of {number * number}\n" for number in range(300))
    (tmp_path / "texts" / "a.txt").write_text(lines)
    hashes = []
    for folder, message in (("one", {}), ("two", {"other": 1})):
        monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / folder))
        source = from_fields(TextFiles, path=str(tmp_path / "texts"), documents="line", context_length=8)
        make = source.make
        monkeypatch.setattr(source, "make", lambda make=make, message=message: _saying(make(), message))
        hashes.append(source.spec().data_hash)
    assert hashes[0] == hashes[1]


def _saying(made: PreparedContent, message: dict[str, int]) -> PreparedContent:
    return replace(made, facts={**made.facts, "leaks": {**made.facts["leaks"], **message}})
