"""Local folders of the form of published sets: splits, subsets, columns and classes, guessed where plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import ClassLabel, Features, Value
from datasets import Sequence as List

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.hub_tables import HubTables
from headtohead.data.sources.hub.repository_listing import Listing, RepositoryFile
from headtohead.data.sources.hub.split_files import splits_of
from published_sets.classification import write_glue, write_imdb, write_sst2
from published_sets.writing import write_card, write_jsonl, write_parquet

TEXT = Value("string")


def source(folder: Path, **chosen: Any) -> HubTables:
    return from_fields(HubTables, **{"folder": str(folder), "tokenizer": "char", **chosen})


def refusal(folder: Path, **chosen: Any) -> str:
    with pytest.raises(DataError) as refused:
        source(folder, **chosen).prepare()
    message = str(refused.value)
    assert "\n" not in message and message.endswith(".")
    return message


def samples(result: HubTables) -> Mapping[SplitName, Sequence[Any]]:
    return result.samples()


def numbered(size: int, **columns: Any) -> list[dict[str, Any]]:
    """Return rows whose columns are computed from their numbers, or are constant."""
    return [{name: made(row) if callable(made) else made for name, made in columns.items()} for row in range(size)]


def splits_in(paths: Sequence[str], card: Mapping[str, Any] | None = None, subset: str | None = None) -> dict[str, Any]:
    listing = Listing("", tuple(RepositoryFile(path) for path in paths), card or {})
    result = splits_of(DatasetReference(folder="F", subset=subset), listing)
    return {split: [file.path for file in files] for split, files in result.items()}


@pytest.mark.parametrize(
    ("paths", "splits"),
    [
        (["train.jsonl", "dev.jsonl"], {"train": ["train.jsonl"], "dev": ["dev.jsonl"]}),
        (
            ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/test-0.parquet"],
            {
                "train": ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
                "test": ["data/test-0.parquet"],
            },
        ),
        (["default/train/0000.parquet", "default/test/0000.parquet"],
         {"train": ["default/train/0000.parquet"], "test": ["default/test/0000.parquet"]}),
        (["set-train.parquet", "set-validation.parquet"],
         {"train": ["set-train.parquet"], "validation": ["set-validation.parquet"]}),
        (["rows.csv"], {"train": ["rows.csv"]}),
        (["rows.csv", "test.csv"], {"train": ["rows.csv"], "test": ["test.csv"]}),
        (["all.csv", "test.csv", "train.csv"], {"train": ["train.csv"], "test": ["test.csv"]}),
        (["train.csv", "train.parquet"], {"train": ["train.parquet"]}),
        (["train.jsonl.gz", "dataset_infos.json"], {"train": ["train.jsonl.gz"]}),
        (["validation_matched-00000-of-00001.parquet", "train.parquet"],
         {"validation_matched": ["validation_matched-00000-of-00001.parquet"], "train": ["train.parquet"]}),
    ],
)  # fmt: skip
def test_names_of_files_tell_splits_where_no_card_does(paths: list[str], splits: dict[str, list[str]]) -> None:
    assert splits_in(paths) == splits


def test_cards_tell_splits_by_patterns_of_a_subset() -> None:
    paths = ["a/train-0.parquet", "a/deep/train-1.parquet", "b/x.parquet", "b/y/z.parquet"]
    card = {
        "configs": [
            {"config_name": "a", "data_files": [{"split": "train", "path": "a/train-*"}]},
            {"config_name": "b", "data_files": {"train": ["b/*.parquet"], "test": "b/**/z.parquet"}},
            {"config_name": "all", "data_files": "**/*.parquet", "default": True},
            {"config_name": "within", "data_dir": "b", "data_files": [{"split": "test", "path": "y/*"}]},
        ]
    }
    assert splits_in(paths, card, "a") == {"train": ["a/train-0.parquet"]}
    assert splits_in(paths, card, "b") == {"train": ["b/x.parquet"], "test": ["b/y/z.parquet"]}
    assert sorted(chain.from_iterable(splits_in(paths, card).values())) == sorted(paths)
    assert splits_in(paths, card, "within") == {"test": ["b/y/z.parquet"]}
    with pytest.raises(DataError, match=r"it has a, b, all, within: correct data\.subset"):
        splits_in(paths, card, "c")
    with pytest.raises(DataError, match=r"has no file a/dev-\*, which its card names for its dev split"):
        splits_in(paths, {"configs": [{"config_name": "a", "data_files": [{"split": "dev", "path": "a/dev-*"}]}]})


def test_a_set_of_several_subsets_asks_for_one(tmp_path: Path) -> None:
    write_glue(tmp_path, subsets=["cola"])
    assert "has several subsets (cola, mnli, mrpc, qnli, qqp, rte, wnli): give data.subset=cola" in refusal(tmp_path)
    with pytest.raises(DataError, match="several subsets"):
        splits_in(["one/train.parquet", "two/train.parquet"])
    assert splits_in(["one/train.parquet", "two/train.parquet"], subset="two") == {"train": ["two/train.parquet"]}


def test_glue_by_its_name_alone_says_what_to_type(tmp_path: Path) -> None:
    """Its columns are plain, its splits are not: labels of test rows are withheld."""
    write_glue(tmp_path, subsets=["rte", "mnli"])
    message = refusal(tmp_path, subset="rte")
    assert "the labels of its test split are not published (all are -1)" in message
    assert "give data.test_split=validation data.validation_split=share" in message
    typed = source(tmp_path, subset="rte", test_split="validation", validation_split="share")
    assert typed.chosen == ("labelled_text", {"text": "sentence1", "second_text": "sentence2", "label": "label"})
    assert typed.spec().class_names == ("entailment", "not_entailment")
    assert [len(samples(typed)[name]) for name in SPLIT_NAMES] == [114, 6, 24]
    message = refusal(tmp_path, subset="mnli")
    assert (
        "several splits for validation (validation_matched, validation_mismatched): give data.validation_split"
        in message
    )


def test_rows_keep_their_texts_and_labels(tmp_path: Path) -> None:
    write_sst2(tmp_path)
    result = samples(source(tmp_path, test_split="validation", validation_split="share"))["test"]
    import pyarrow.parquet as parquet

    raw = parquet.read_table(tmp_path / "data" / "validation-00000-of-00001.parquet").to_pylist()
    assert result == [(row["sentence"], ("negative", "positive")[row["label"]]) for row in raw]


def test_a_share_is_drawn_from_train_though_the_set_has_a_split_of_that_name(tmp_path: Path) -> None:
    write_imdb(tmp_path)
    typed = source(tmp_path, test_split="share", validation_share=0.1, test_share=0.2)
    sizes = [len(samples(typed)[name]) for name in SPLIT_NAMES]
    assert sizes == [84, 12, 24], "none of the published test rows"


@pytest.mark.parametrize(
    ("file", "chosen"),
    [
        ("test.parquet", {}),
        ("validation.parquet", {}),
        ("validation_matched.parquet", {}),
        ("test.parquet", {"train_split": "test"}),
    ],
)
def test_no_row_of_training_is_in_another_split_of_a_set_that_has_one_alone(
    tmp_path: Path, file: str, chosen: dict[str, str]
) -> None:
    rows = numbered(60, text=lambda row: f"text {row}", label=lambda row: row % 2)
    write_parquet(tmp_path / file, rows)
    result = samples(source(tmp_path, **chosen))
    assert sorted(chain.from_iterable(result.values())) == sorted((f"text {row}", str(row % 2)) for row in range(60))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"test_split": "train"}, "data.test_split=train is what data.train_split=train reads too"),
        ({"validation_split": "train"}, "data.validation_split=train is what data.train_split=train reads too"),
        ({"train_split": "test", "test_split": "test"}, "data.test_split=test is what data.train_split=test reads too"),
        (
            {"validation_split": "test", "test_split": "test"},
            "data.test_split=test is what data.validation_split=test reads too",
        ),
        ({"test_split": "all"}, "data.test_split=all and train share plain_text/train-00000-of-00001.parquet"),
    ],
)
def test_a_split_that_another_reads_already_is_refused(tmp_path: Path, chosen: dict[str, str], expected: str) -> None:
    write_imdb(tmp_path)
    splits = {name: f"plain_text/{name}-*" for name in ("train", "test")}
    write_card(tmp_path, {"configs": [{"config_name": "plain_text", "data_files": {**splits, "all": "plain_text/t*"}}]})
    message = refusal(tmp_path, **chosen)
    field = expected.partition("=")[0]
    assert expected in message and f"give {field}=share" in message
    with_fix = {**chosen, field.removeprefix("data."): "share"}
    assert all(samples(source(tmp_path, **with_fix)).values())


def test_a_set_with_one_split_is_shared_out_and_no_split_is_all_of_it(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", numbered(60, text=lambda row: f"text {row}", label=lambda row: row % 2))
    assert sum(len(result) for result in samples(source(tmp_path)).values()) == 60
    assert "give data.test_split=share." in refusal(tmp_path, test_split="train")


def test_rows_without_a_label_or_a_text_are_left_out_and_counted(tmp_path: Path) -> None:
    features = Features({"text": TEXT, "label": ClassLabel(names=["no", "yes"])})
    rows = numbered(60, text=lambda row: f"text {row}", label=lambda row: row % 2)
    rows[3]["label"], rows[5]["text"], rows[7]["text"] = -1, " ", None
    write_parquet(tmp_path / "train.parquet", rows, features)
    result = source(tmp_path, validation_share=0.1, test_share=0.1)
    assert sum(len(of) for of in samples(result).values()) == 57
    assert result.provenance() == {"rows left out": {"train.parquet": 3}}


@pytest.mark.parametrize("label", [Value("int64"), ClassLabel(names=["-1", "0", "1"])])
@pytest.mark.parametrize("names", [None, ["-1", "0", "1"]])
def test_minus_one_is_a_class_by_its_name_or_among_numbers_without_names(
    tmp_path: Path, label: Any, names: list[str] | None
) -> None:
    first = 0 if isinstance(label, ClassLabel) else -1
    rows = numbered(60, text=lambda row: f"text {row}", label=lambda row: first + row % 3)
    write_parquet(tmp_path / "train.parquet", rows, Features({"text": TEXT, "label": label}))
    result = source(tmp_path, class_names=names)
    assert result.spec().class_names == ("-1", "0", "1")
    message = dict(chain.from_iterable(samples(result).values()))
    assert message == {f"text {row}": str(row % 3 - 1) for row in range(60)}


def test_columns_are_known_by_their_types_where_names_say_nothing(tmp_path: Path) -> None:
    features = Features({"id": Value("int32"), "body": TEXT, "mood": ClassLabel(names=["low", "high"])})
    rows = numbered(40, id=lambda row: row, body=lambda row: f"body {row}", mood=lambda row: row % 2)
    write_parquet(tmp_path / "train.parquet", rows, features)
    result = source(tmp_path)
    assert result.chosen == ("labelled_text", {"text": "body", "label": "mood"})
    assert result.spec().class_names == ("low", "high")
    plain = Features({"id": Value("int32"), "body": TEXT})
    write_parquet(tmp_path / "train.parquet", [{"id": row["id"], "body": row["body"]} for row in rows], plain)
    assert source(tmp_path).chosen == ("language", {"text": "body"})


def test_columns_that_are_not_plain_are_listed_with_their_types_and_what_to_type(tmp_path: Path) -> None:
    features = Features(
        {
            "title": TEXT,
            "body": TEXT,
            "mood": ClassLabel(names=["low", "high"]),
            "words": List(TEXT),
            "n": Value("int32"),
        }
    )
    rows = numbered(20, title="t", body="b", mood=0, words=["a"], n=lambda row: row)
    write_parquet(tmp_path / "train.parquet", rows, features)
    message = refusal(tmp_path)
    assert "title (string), body (string), mood (2 classes), words (lists of string), n (int32)" in message
    assert "for instance data.text_column=title data.label_column=mood" in message
    assert source(tmp_path, text_column="body", label_column="mood").spec().class_names == ("low", "high")
    message = refusal(tmp_path, text_column="text", label_column="mood")
    assert "has no column 'text', it has title (string)" in message and "correct data.text_column" in message


def test_a_file_of_another_schema_than_the_first_is_reported(tmp_path: Path) -> None:
    rows = numbered(20, text=lambda row: f"t {row}", label=lambda row: row % 2)
    write_parquet(tmp_path / "train.parquet", rows)
    write_parquet(tmp_path / "test.parquet", [{"review": "t", "label": 0}])
    message = refusal(tmp_path)
    assert "test.parquet has no column 'text', it has 'review', 'label'" in message


def test_nested_columns_have_dotted_names_in_parquet_and_json(tmp_path: Path) -> None:
    rows = numbered(40, id=lambda row: row, translation=lambda row: {"de": f"Zeile {row}", "en": f"line {row}"})
    features = Features({"id": Value("int32"), "translation": {"de": TEXT, "en": TEXT}})
    write_parquet(tmp_path / "parquet" / "train.parquet", rows, features)
    write_jsonl(tmp_path / "jsonl" / "train.jsonl", rows)
    write_jsonl(tmp_path / "packed" / "train.jsonl.gz", rows)
    for name in ("parquet", "jsonl", "packed"):
        result = source(tmp_path / name, source_column="translation.de", target_column="translation.en")
        pairs = sorted(chain.from_iterable(samples(result).values()))
        assert pairs == sorted((f"Zeile {row}", f"line {row}") for row in range(40))
        message = refusal(tmp_path / name, source_column="translation.fr", target_column="translation.en")
        assert "no column 'translation.fr'" in message and "translation.de" in message


def test_lists_of_answers_are_read_by_dotted_names(tmp_path: Path) -> None:
    rows = numbered(
        30,
        question="what?",
        context=lambda row: f"it is {row}",
        found=lambda row: {"text": [str(row)], "start": [6]},
    )
    write_parquet(tmp_path / "train.parquet", rows)
    chosen = {"question_column": "question", "context_column": "context", "answer_column": "found.text"}
    result = source(tmp_path, **chosen, answer_start_column="found.start")
    assert result.spec().kind == "questions"
    assert {sample.context for sample in samples(result)["train"]} <= {f"it is {row}" for row in range(30)}


def test_lists_of_numbered_tags_get_their_names(tmp_path: Path) -> None:
    features = Features({"tokens": List(TEXT), "ner_tags": List(ClassLabel(names=["O", "B-PER", "I-PER"]))})
    rows = numbered(40, tokens=lambda row: ["in", f"name{row}"], ner_tags=[0, 1])
    write_parquet(tmp_path / "train.parquet", rows, features)
    result = source(tmp_path)
    assert result.spec().class_names == ("O", "B-PER", "I-PER")
    assert {sample[1] for sample in samples(result)["train"]} == {("O", "B-PER")}


def test_given_class_names_reorder_the_published_ones_or_rename_them(tmp_path: Path) -> None:
    write_sst2(tmp_path)
    ways = {"test_split": "validation", "validation_split": "share"}
    as_published, turned, renamed = (
        source(tmp_path, **ways, class_names=names)
        for names in (None, ["positive", "negative"], ["thumbs down", "thumbs up"])
    )
    labels = [
        [result.split("test").batch(np.arange(24)).targets.tolist(), result.spec().class_names]
        for result in (as_published, turned, renamed)
    ]
    assert labels[1] == [[1 - label for label in labels[0][0]], ("positive", "negative")]
    assert labels[2] == [labels[0][0], ("thumbs down", "thumbs up")]


def test_numbers_that_are_given_as_names_are_names_and_no_positions(tmp_path: Path) -> None:
    rows = numbered(60, text=lambda row: f"text {row}", label=lambda row: 1 + row % 3)
    write_parquet(tmp_path / "train.parquet", rows)
    stars = source(tmp_path, class_names=["1", "2", "3"])
    labels = [
        (int(stars.decode(tokens[valid].tolist()).removeprefix("text ")), label)
        for batch in (stars.split(name).batch(np.arange(len(stars.split(name)))) for name in SPLIT_NAMES)
        for tokens, valid, label in zip(batch.tokens, batch.valid, batch.targets.tolist(), strict=True)
    ]
    assert sorted(labels) == [(row, row % 3) for row in range(60)]


def test_class_names_come_from_the_card_where_files_only_number_them(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", numbered(40, text=lambda row: f"t {row}", label=lambda row: row % 2))
    kinds = {"class_label": {"names": {"0": "ham", "1": "spam"}}}
    info = {"features": [{"name": "text", "dtype": "string"}, {"name": "label", "dtype": kinds}]}
    write_card(tmp_path, {"license": "mit", "dataset_info": info})
    assert source(tmp_path).spec().class_names == ("ham", "spam")
    write_card(tmp_path, {"license": "mit"})
    assert source(tmp_path).spec().class_names == ("0", "1")


def test_a_card_that_names_numbers_in_another_order_makes_other_labels(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", numbered(40, text=lambda row: f"t {row}", label=lambda row: row % 2))

    def labels(*names: str) -> list[int]:
        kinds = {"class_label": {"names": {str(number): name for number, name in enumerate(names)}}}
        info = {"features": [{"name": "text", "dtype": "string"}, {"name": "label", "dtype": kinds}]}
        write_card(tmp_path, {"license": "mit", "dataset_info": info})
        targets = source(tmp_path, class_names=["ham", "spam"]).split("train").batch(np.arange(30)).targets
        return [] if targets is None else targets.tolist()

    assert labels("spam", "ham") == [1 - label for label in labels("ham", "spam")]


def test_numbers_with_a_point_are_scores_and_no_classes(tmp_path: Path) -> None:
    rows = numbered(40, sentence1=lambda row: f"a {row}", sentence2="b", label=lambda row: row / 8)
    write_parquet(tmp_path / "train.parquet", rows)
    assert source(tmp_path).chosen[0] == "scored_text"


def test_a_folder_that_holds_no_rows_is_reported(tmp_path: Path) -> None:
    assert "is not a folder" in refusal(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("nothing")
    assert "has no .parquet" in refusal(tmp_path) and "it holds notes.txt" in refusal(tmp_path)
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.PNG").write_bytes(b"")
    assert refusal(tmp_path).endswith(f"or read folders of images by data=image_folder data.path={tmp_path}.")
    (tmp_path / "train.json").write_text("[1, 2]")
    assert "entry 1 is not an object with named values" in refusal(tmp_path)
