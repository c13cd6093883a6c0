"""Tables of the user's own: which files are which split, and shares of one file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from data.tables.written_tables import LABELLED, refusal, source_of, write
from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.parquet_files import ParquetFiles
from headtohead.data.sources.table_files import TableFiles


@pytest.mark.parametrize(
    "names", [("train", "validation", "test"), ("training", "dev", "testing"), ("train", "val", "test")]
)
def test_files_of_a_folder_are_the_splits_that_their_names_say(tmp_path: Path, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        write(tmp_path / f"{name}-00.csv", LABELLED[20 * index : 20 * index + 20])
    samples = source_of(tmp_path).samples()
    assert [samples[name][0][0] for name in SPLIT_NAMES] == [LABELLED[index]["text"] for index in (0, 20, 40)]


def test_folders_name_splits_too_and_shards_come_in_order(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    write(tmp_path / "train" / "0.csv", LABELLED[:20])
    write(tmp_path / "train" / "1.csv", LABELLED[20:40])
    write(tmp_path / "test" / "0.csv", LABELLED[40:])
    samples = source_of(tmp_path).samples()
    assert len(samples["test"]) == 20 and len(samples["train"]) == 38 and len(samples["validation"]) == 2
    numbers = [int(text.split()[1].strip(",")) for text, _ in samples["train"]]
    assert numbers == sorted(numbers)


def test_splits_can_be_given_one_by_one(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{name}.csv", LABELLED[start : start + 20])
        for name, start in (("a", 0), ("b", 20), ("c", 40))
    ]
    source = source_of(paths[0], validation_path=str(paths[1]), test_path=str(paths[2]))
    assert [len(source.samples()[name]) for name in SPLIT_NAMES] == [20, 20, 20]
    assert source.samples()["test"][0][0] == LABELLED[40]["text"]


@pytest.mark.parametrize("field", ["validation_path", "test_path"])
def test_file_that_is_trained_on_is_refused_for_another_split(tmp_path: Path, field: str) -> None:
    path = Path(write(tmp_path / "data.csv", LABELLED))
    (tmp_path / "beside").symlink_to(path)
    for other in (path, tmp_path / "beside"):
        message = refusal(partial(source_of, path, **{field: str(other)}))
        assert f"data.{field}={other} has {other}, which is read for train too: give a file" in message
    message = refusal(lambda: source_of(tmp_path, **{field: str(path)}))
    assert "which is read for train too" in message, "a folder whose names tell no split is all for training"


def test_file_that_selects_is_refused_for_the_test(tmp_path: Path) -> None:
    path, other = (write(tmp_path / name, LABELLED) for name in ("a.csv", "b.csv"))
    message = refusal(lambda: source_of(path, validation_path=str(other), test_path=str(other)))
    assert f"data.test_path={other} has {other}, which is read for validation too" in message


def test_file_of_a_folder_that_is_given_for_another_split_is_reported_by_the_field_that_gives_it(
    tmp_path: Path,
) -> None:
    """The refusal must not suggest to null fields that are null already."""
    for name in ("train", "test"):
        write(tmp_path / f"{name}.csv", LABELLED)
    test = tmp_path / "test.csv"
    message = refusal(lambda: source_of(tmp_path, validation_path=str(test)))
    assert f"data.validation_path={test} has {test}, which is read for test too: give a file that test" in message
    (tmp_path / "dev.csv").symlink_to(tmp_path / "train.csv")
    message = refusal(lambda: source_of(tmp_path))
    assert f"data.path={tmp_path} has {tmp_path / 'dev.csv'} for validation and for train" in message


@pytest.mark.parametrize(("first", "second"), [("train", "test"), ("train", "validation"), ("validation", "test")])
def test_copy_of_a_file_is_refused_for_another_split(tmp_path: Path, first: str, second: str) -> None:
    for index, name in enumerate(("train", "validation", "test")):
        write(tmp_path / f"{name}.csv", LABELLED[20 * index : 20 * index + 20])
    source_of(tmp_path).samples()
    shutil.copy(tmp_path / f"{first}.csv", tmp_path / f"{second}.csv")
    message = refusal(lambda: source_of(tmp_path))
    copy, original = tmp_path / f"{second}.csv", tmp_path / f"{first}.csv"
    assert f"{copy}, which is read for {second}, holds the same as {original}, which is read for {first}" in message


def test_shares_follow_from_the_seed_and_changed_files_are_read_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", LABELLED)
    first, other = (source_of(path, seed=seed, test_share=0.2) for seed in (0, 1))
    assert len(first.samples()["test"]) == 12 and first.samples() == source_of(path, test_share=0.2).samples()
    assert first.samples()["test"] != other.samples()["test"]
    before = first.spec().data_hash
    write(path, [{**row, "text": f"{row['text']}!"} for row in LABELLED])
    assert source_of(path, test_share=0.2).spec().data_hash != before


def test_columns_that_play_no_part_are_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [{**row, "other": None} for row in LABELLED])
    assert len(source_of(path).samples()["train"]) == 54


def test_too_few_rows_for_three_splits_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", LABELLED[:2])
    assert f"data.path={path} has 2 samples, too few to share out to three splits" in refusal(lambda: source_of(path))


def test_split_without_rows_is_named_by_its_file(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", LABELLED)
    (tmp_path / "test.csv").write_text("text,label\n")
    assert f"{tmp_path / 'test.csv'} has no samples for the test split" in refusal(lambda: source_of(tmp_path))


def test_folder_without_a_train_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "test.csv", LABELLED)
    assert "has files for test, and none for train: add one" in refusal(
        lambda: from_fields(CsvFiles, path=str(tmp_path))
    )


@pytest.mark.parametrize("make", [CsvFiles, JsonFiles, ParquetFiles])
def test_path_must_be_given_and_there(tmp_path: Path, make: Callable[..., TableFiles]) -> None:
    assert refusal(make).startswith("data.path is missing: give a .")
    assert f"data.path={tmp_path}/no.x does not exist" in refusal(
        lambda: from_fields(make, path=str(tmp_path / "no.x"))
    )
    assert f"data.path={tmp_path} is a folder without ." in refusal(lambda: from_fields(make, path=str(tmp_path)))
    path = write(tmp_path / {"csv": "a.csv", "json": "a.json", "parquet": "a.parquet"}[make.name], LABELLED)  # type: ignore[attr-defined]
    message = refusal(lambda: from_fields(make, path=str(path), test_path=str(tmp_path / "gone.x")))
    assert f"data.test_path={tmp_path / 'gone.x'} does not exist" in message
