"""Tables of one's own: the same samples from CSV, JSON and Parquet, splits, and what is said of bad ones."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.data.contracts import SPLIT_NAMES, DataError
from headtohead.data.csv_files import CsvFiles
from headtohead.data.json_files import JsonFiles
from headtohead.data.parquet_files import ParquetFiles
from headtohead.data.questions import Question
from headtohead.data.table_files import TableFiles

Row = Mapping[str, Any]
FORMATS = ("csv", "tsv", "json", "jsonl", "parquet")
every_format = pytest.mark.parametrize("ending", FORMATS)


def write(path: Path, rows: Sequence[Row]) -> Path:
    """In the format of the path's ending."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow(rows[0])
            writer.writerows(
                [" ".join(cell) if isinstance(cell, list) else cell for cell in row.values()] for row in rows
            )
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    return path


def source_of(path: Path, **chosen: Any) -> TableFiles:
    ending = path.suffix.removeprefix(".") or next(file.suffix for file in sorted(path.rglob("*.*")))[1:]
    make: Callable[..., TableFiles] = {"json": JsonFiles, "jsonl": JsonFiles, "parquet": ParquetFiles}.get(
        ending, CsvFiles
    )
    return make(path=str(path), **{"tokenizer": "char", **chosen})


def refusal(source: Callable[[], TableFiles]) -> str:
    with pytest.raises(DataError) as refused:
        source().prepare()
    return str(refused.value)


LABELLED = [{"text": f'number {row}, "so"', "label": ("no", "yes")[row % 2], "other": row} for row in range(60)]
KINDS: dict[str, tuple[Callable[[int], Row], dict[str, str], Callable[[int], Any]]] = {
    "labelled_text": (
        lambda row: {"id": row, "review": f"it is {row}", "stars": row % 3},
        {"text_column": "review", "label_column": "stars"},
        lambda row: (f"it is {row}", str(row % 3)),
    ),
    "labelled_text of pairs": (
        lambda row: {"a": f"it is {row}", "b": f"it was {row}", "same": ("no", "yes")[row % 2]},
        {"text_column": "a", "second_text_column": "b", "label_column": "same"},
        lambda row: (f"it is {row}", f"it was {row}", ("no", "yes")[row % 2]),
    ),
    "scored_text": (
        lambda row: {"a": f"it is {row}", "b": f"it was {row}", "alike": row / 8},
        {"text_column": "a", "second_text_column": "b", "score_column": "alike"},
        lambda row: (f"it is {row}", f"it was {row}", row / 8),
    ),
    "tagged_text": (
        lambda row: {"words": ["in", f"Town{row}"], "entities": ["O", "B-LOC"]},
        {"text_column": "words", "tags_column": "entities"},
        lambda row: (("in", f"Town{row}"), ("O", "B-LOC")),
    ),
    "questions": (
        lambda row: {"q": "what?", "c": f"{row} is {row}", "a": str(row), "s": len(str(row)) + 4},
        {"question_column": "q", "context_column": "c", "answer_column": "a", "answer_start_column": "s"},
        lambda row: Question("what?", f"{row} is {row}", str(row), len(str(row)) + 4),
    ),
    "pairs_of_text": (
        lambda row: {"de": f"Zeile {row}", "en": f"line {row}"},
        {"source_column": "de", "target_column": "en"},
        lambda row: (f"Zeile {row}", f"line {row}"),
    ),
    "language": (
        lambda row: {"title": "x", "body": f"a document of number {row}"},
        {"text_column": "body", "context_length": 8},
        lambda row: f"a document of number {row}",
    ),
}


@every_format
@pytest.mark.parametrize("kind", KINDS)
def test_kind_and_samples_follow_from_the_columns_in_any_format(tmp_path: Path, kind: str, ending: str) -> None:
    row, columns, sample = KINDS[kind]
    source = source_of(write(tmp_path / f"data.{ending}", [row(number) for number in range(60)]), **columns)
    samples = source.samples()
    together = sorted((one for name in SPLIT_NAMES for one in samples[name]), key=str)
    assert together == sorted((sample(number) for number in range(60)), key=str)
    assert source.form.kind == kind.split()[0]
    assert [len(samples[name]) for name in SPLIT_NAMES] == [54, 3, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_spec_and_rows_are_the_same_from_any_format(tmp_path: Path, kind: str) -> None:
    row, columns, _ = KINDS[kind]
    described = []
    for ending in ("csv", "parquet"):
        source = source_of(write(tmp_path / f"data.{ending}", [row(number) for number in range(60)]), **columns)
        assert source.spec().kind == kind.split()[0]
        described.append((source.spec(), source.describe(source.split("test").batch(np.arange(2)))))
    assert described[0] == described[1]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"idx": 1, "sentence": "a", "label": 1}, "labelled_text"),
        ({"premise": "a", "hypothesis": "b", "label": 1}, "labelled_text"),
        ({"tokens": ["a"], "ner_tags": ["O"]}, "tagged_text"),
        ({"id": "1", "title": "t", "context": "c", "question": "q", "answers": {"text": ["c"]}}, "questions"),
        ({"source": "a", "target": "b"}, "pairs_of_text"),
        ({"sentence1": "a", "sentence2": "b", "score": 0.5}, "scored_text"),
        ({"sentence1": "a", "sentence2": "b", "similarity_score": 3}, "scored_text"),
        ({"text": "a", "url": "b"}, "language"),
    ],
)
def test_usual_names_of_columns_need_not_be_given(tmp_path: Path, row: Row, kind: str) -> None:
    assert source_of(write(tmp_path / "data.jsonl", [row])).form.kind == kind


def test_columns_that_leave_a_doubt_are_to_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", [{"review": "a", "stars": 1}])
    said = refusal(lambda: source_of(path))
    assert f"{path} has the columns 'review', 'stars', which do not say what they are" in said
    assert "data.label_column data.text_column [data.second_text_column] for labelled_text" in said


@every_format
def test_missing_column_is_named_beside_those_there_are(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"data.{ending}", LABELLED)
    said = refusal(lambda: source_of(path, text_column="text", label_column="lable"))
    assert f"{path} has no column 'lable', it has 'text', 'label', 'other': correct data.label_column" in said


def test_columns_that_make_no_kind_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", LABELLED)
    assert "data.label_column do not make a kind of data together" in refusal(
        lambda: source_of(path, label_column="label")
    )


# Splits.


@pytest.mark.parametrize(
    "names", [("train", "validation", "test"), ("training", "dev", "testing"), ("train", "val", "test")]
)
def test_files_of_a_folder_are_the_splits_that_their_names_say(tmp_path: Path, names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        write(tmp_path / f"{name}-00.csv", LABELLED[20 * place : 20 * place + 20])
    samples = source_of(tmp_path).samples()
    assert [samples[name][0][0] for name in SPLIT_NAMES] == [LABELLED[place]["text"] for place in (0, 20, 40)]


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
        said = refusal(lambda other=other: source_of(path, **{field: str(other)}))
        assert f"data.{field}={other} has {other}, which is read for train too: give a file" in said
    said = refusal(lambda: source_of(tmp_path, **{field: str(path)}))
    assert "which is read for train too" in said, "a folder whose names tell no split is all for training"


def test_file_that_selects_is_refused_for_the_test(tmp_path: Path) -> None:
    path, other = (write(tmp_path / name, LABELLED) for name in ("a.csv", "b.csv"))
    said = refusal(lambda: source_of(path, validation_path=str(other), test_path=str(other)))
    assert f"data.test_path={other} has {other}, which is read for validation too" in said


def test_file_of_a_folder_that_is_given_for_another_split_is_told_by_the_field_that_gives_it(tmp_path: Path) -> None:
    """What the folder gives by its names is not to be told away by fields that are null already."""
    for name in ("train", "test"):
        write(tmp_path / f"{name}.csv", LABELLED)
    test = tmp_path / "test.csv"
    said = refusal(lambda: source_of(tmp_path, validation_path=str(test)))
    assert f"data.validation_path={test} has {test}, which is read for test too: give a file that test" in said
    (tmp_path / "dev.csv").symlink_to(tmp_path / "train.csv")
    said = refusal(lambda: source_of(tmp_path))
    assert f"data.path={tmp_path} has {tmp_path / 'dev.csv'} for validation and for train" in said


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
    assert "has files for test, and none for train: add one" in refusal(lambda: CsvFiles(path=str(tmp_path)))


@pytest.mark.parametrize("make", [CsvFiles, JsonFiles, ParquetFiles])
def test_path_must_be_given_and_there(tmp_path: Path, make: Callable[..., TableFiles]) -> None:
    assert refusal(make).startswith("data.path is missing: give a .")
    assert f"data.path={tmp_path}/no.x does not exist" in refusal(lambda: make(path=str(tmp_path / "no.x")))
    assert f"data.path={tmp_path} is a folder without ." in refusal(lambda: make(path=str(tmp_path)))
    path = write(tmp_path / {"csv": "a.csv", "json": "a.json", "parquet": "a.parquet"}[make.name], LABELLED)  # type: ignore[attr-defined]
    said = refusal(lambda: make(path=str(path), test_path=str(tmp_path / "gone.x")))
    assert f"data.test_path={tmp_path / 'gone.x'} does not exist" in said


# Rows that cannot be read: file, row, and what to do.


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("label", "", "line 4: its label is empty, and must be a name or a whole number"),
        ("text", "", "line 4: its text is empty; remove the row"),
        ("label", "maybe", "line 4 has label 'maybe', which is none of data.class_names (no, yes)"),
        ("label", "2", "line 4 has label 2, and its 2 classes are numbered from 0 to 1"),
    ],
)
def test_bad_cell_is_named_with_file_and_line(tmp_path: Path, column: str, value: str, message: str) -> None:
    rows = [*LABELLED[:2], {**LABELLED[2], column: value}, *LABELLED[3:]]
    path = write(tmp_path / "data.csv", rows)
    said = refusal(lambda: source_of(path, class_names=["no", "yes"]))
    assert said.startswith(f"{path}, ") and message in said


@pytest.mark.parametrize(("given", "part"), [("half of one: \ud83d", "text"), (["a", "\ud83d"], "words")])
def test_half_a_sign_of_json_is_named_with_its_line(tmp_path: Path, given: Any, part: str) -> None:
    other = {"text": {"label": "good"}, "words": {"tags": ["O", "O"]}}[part]
    lines = [json.dumps({part: own, **other}) for own in ("fine rows", "two words", given)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="ascii")
    told = refusal(lambda: JsonFiles(path=str(tmp_path / "train.jsonl")))
    assert f"train.jsonl, line 3: its {part} ha" in told and "(\\ud83d)" in told


def test_label_that_is_no_whole_number_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", [{"text": "a", "label": 0.5}])
    assert f"{path}, line 1: its label is 0.5, and must be a name or a whole number" in refusal(lambda: source_of(path))


def test_unknown_label_in_validation_is_named_with_its_own_file(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", LABELLED)
    write(tmp_path / "dev.csv", [*LABELLED[:5], {**LABELLED[5], "label": "meh"}])
    said = refusal(lambda: source_of(tmp_path))
    assert said.startswith(
        f"{tmp_path / 'dev.csv'}, line 7 has label 'meh', which the train split does not have (no, yes)"
    )
    assert "name all classes in data.class_names" in said


def test_tags_of_another_number_than_the_words_are_named_with_their_row(tmp_path: Path) -> None:
    rows = [{"tokens": ["a", "b"], "tags": ["O", "B-X"]}, {"tokens": ["a", "b", "c"], "tags": ["O"]}] * 20
    path = write(tmp_path / "data.parquet", rows)
    assert ", row 2 has 3 words and 1 tags: give each word one tag" in refusal(lambda: source_of(path))


def test_answer_that_is_not_in_its_context_is_named_with_its_row(tmp_path: Path) -> None:
    rows = [{"question": "q", "context": "a b c", "answer": "b"}] * 30 + [
        {"question": "q", "context": "a", "answer": "z"}
    ]
    said = refusal(lambda: source_of(write(tmp_path / "data.jsonl", rows)))
    assert said.startswith(f"{tmp_path / 'data.jsonl'}, line 31: its answer 'z' is not in its context")


CLAIMS = [
    {
        "about": f"scene {row // 3 % 20}",
        "claim": f"claim {row % 7}",
        "text": f"text {row}",
        "label": ("no", "yes")[row % 2],
    }
    for row in range(120)
]
SHARED: dict[str, Any] = {"text_column": "text", "label_column": "label", "test_share": 0.2, "validation_share": 0.1}


def sides(source: TableFiles, column: str, rows: Sequence[Row] = CLAIMS) -> list[set[str]]:
    """The values of a column in each split."""
    value_of = {row["text"]: row[column] for row in rows}
    return [{value_of[sample[0]] for sample in source.samples()[name]} for name in SPLIT_NAMES]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_that_share_a_value_are_drawn_for_the_same_split(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"data.{ending}", CLAIMS)
    train, validation, test = sides(source_of(path, **SHARED), "about")
    assert train & validation & test, "rows by themselves fall on all sides"
    for seed in range(3):
        source = source_of(path, **SHARED, share_by="about", seed=seed)
        train, validation, test = sides(source, "about")
        assert not (train & validation or train & test or validation & test)
        assert [len(source.samples()[name]) for name in SPLIT_NAMES] == [84, 12, 24]
        assert source.samples() == source_of(path, **SHARED, share_by=["about"], seed=seed).samples()
    assert (
        len({frozenset(sides(source_of(path, **SHARED, share_by="about", seed=seed), "about")[2]) for seed in range(5)})
        > 1
    )


def test_rows_are_kept_together_by_each_of_several_columns(tmp_path: Path) -> None:
    """Rows 2 n and 2 n + 1 ask one thing, and 2 n + 1 and 2 n + 2 are about one, in chains of ten."""
    rows = [
        {**row, "asked": f"q{number // 2}", "about": f"s{(number + 1) // 2 + number // 10 * 100}"}
        for number, row in enumerate(CLAIMS)
    ]
    source = source_of(write(tmp_path / "data.jsonl", rows), **SHARED, share_by=["asked", "about"])
    of_chain = {row["text"]: number // 10 for number, row in enumerate(rows)}
    for name, chains in (("validation", 2), ("test", 3)):
        found = Counter(of_chain[sample[0]] for sample in source.samples()[name])
        assert set(found.values()) == {10} and len(found) <= chains


def test_rows_without_a_value_share_none(tmp_path: Path) -> None:
    rows = [{**row, "about": None} for row in CLAIMS]
    alone = source_of(write(tmp_path / "data.parquet", rows), **SHARED, share_by="about")
    assert [len(alone.samples()[name]) for name in SPLIT_NAMES] == [84, 12, 24]
    for number, nothing in enumerate((float("nan"), [], " ")):
        rows = [{**row, "about": nothing} for row in CLAIMS]
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        assert len(source_of(path, **SHARED, share_by="about").samples()["test"]) == 24, nothing


def test_whole_numbers_share_with_themselves_however_a_file_writes_them(tmp_path: Path) -> None:
    """A file of a table whose column has a gap somewhere writes 7 as 7.0."""
    rows = [{**row, "about": (int, float)[number // 60](number % 30)} for number, row in enumerate(CLAIMS)]
    for part, own in enumerate((rows[:60], rows[60:])):
        write(tmp_path / f"part-{part}.parquet", own)
    train, _, test = sides(source_of(tmp_path, **SHARED), "about", rows)
    assert train & test, "rows by themselves fall on all sides"
    for seed in range(3):
        train, validation, test = sides(source_of(tmp_path, **SHARED, share_by="about", seed=seed), "about", rows)
        assert not (train & validation or train & test or validation & test)


def test_what_most_rows_share_stays_for_training(tmp_path: Path) -> None:
    rows = [{**row, "about": "all the same" if number < 80 else f"{number}"} for number, row in enumerate(CLAIMS)]
    path = write(tmp_path / "data.csv", rows)
    for seed in range(5):
        assert "all the same" not in sides(source_of(path, **SHARED, share_by="about", seed=seed), "about", rows)[2]


def test_rows_that_are_shared_otherwise_are_other_data(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", CLAIMS)
    assert source_of(path, **SHARED).spec().data_hash != source_of(path, **SHARED, share_by="about").spec().data_hash


def test_files_of_their_own_need_no_column_to_share_by(tmp_path: Path) -> None:
    for name in SPLIT_NAMES:
        write(tmp_path / f"{name}.csv", LABELLED)
    assert len(source_of(tmp_path, share_by="about").samples()["test"]) == 60


def test_a_column_that_shares_nothing_out_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", CLAIMS)
    said = refusal(lambda: source_of(path, **SHARED, share_by="abuot"))
    assert f"data.share_by=abuot is no column of {path}, which has about, claim, text, label" in said
    said = refusal(lambda: source_of(path, **SHARED, share_by="label"))
    assert "has 120 samples in 2 groups by data.share_by=label, too few to share out to three splits" in said


@pytest.mark.parametrize("score", [None, "high", True, "nan"])
def test_score_that_is_no_number_is_named_with_its_row(tmp_path: Path, score: Any) -> None:
    path = write(tmp_path / "data.jsonl", [{"sentence1": "a", "sentence2": "b", "score": score}])
    assert f"{path}, line 1: its score is {score!r}, and must be a number" in refusal(lambda: source_of(path))


def test_questions_of_one_context_are_drawn_for_the_same_split(tmp_path: Path) -> None:
    rows = [{"question": f"q{row}", "context": f"{row // 5} is it", "answer": "is"} for row in range(200)]
    samples = source_of(write(tmp_path / "data.jsonl", rows), validation_share=0.11).samples()
    contexts = [{asked.context for asked in samples[name]} for name in SPLIT_NAMES]
    assert sum(map(len, contexts)) == len(set.union(*contexts)) == 40
    assert [len(samples[name]) for name in SPLIT_NAMES] == [165, 25, 10], "22 and 10 rows, rounded up to whole contexts"


def test_questions_of_too_few_contexts_are_told_to_be_in_groups(tmp_path: Path) -> None:
    rows = [{"question": f"q{row}", "context": f"{max(row, 97)} is it", "answer": "is"} for row in range(101)]
    said = refusal(lambda: source_of(write(tmp_path / "data.jsonl", rows)))
    assert "has 101 samples in 4 groups, each of which stands in one split, too few to share out" in said


SQUAD = {"text": ["b", "c"], "answer_start": [2, 4]}


@pytest.mark.parametrize(
    ("answers", "others"),
    [
        (SQUAD, ("c",)),
        ([{"text": "b", "answer_start": 2}, {"text": "a b", "answer_start": 0}], ("a b",)),
        (["b", "b c"], ("b c",)),
        ("b", ()),
    ],
)
def test_nested_answers_are_read_the_first_is_learned_and_all_count(
    tmp_path: Path, answers: Any, others: tuple[str, ...]
) -> None:
    path = write(tmp_path / "data.jsonl", [{"question": "q", "context": "a b c", "answers": answers}] * 30)
    (asked,) = set(source_of(path).samples()["train"])
    assert asked.answer == "b" and asked.start in (2, None) and asked.answers == ("b", *others)


def test_nested_answers_are_read_from_parquet_too(tmp_path: Path) -> None:
    path = write(tmp_path / "data.parquet", [{"question": "q", "context": "a b c", "answers": SQUAD}] * 30)
    assert set(source_of(path).samples()["train"]) == {Question("q", "a b c", "b", 2, ("c",))}


def test_file_of_articles_is_read_as_its_questions(tmp_path: Path) -> None:
    questions = [
        {"question": f"q{number}", "id": "x", "answers": [{"text": "b", "answer_start": 2}]} for number in range(30)
    ]
    articles = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "a b c", "qas": questions}]}]}
    for indent in (None, 1):
        path = tmp_path / "squad.json"
        path.write_text(json.dumps(articles, indent=indent))
        assert Question("q7", "a b c", "b", 2, id="x") in [
            one for name in SPLIT_NAMES for one in source_of(path).samples()[name]
        ]


@pytest.mark.parametrize("answers", [{"text": [], "answer_start": []}, []])
def test_question_with_an_empty_list_of_answers_has_none_in_its_context(tmp_path: Path, answers: Any) -> None:
    path = write(tmp_path / "data.jsonl", [{"question": "q", "context": "a b c", "answers": answers}] * 30)
    (asked,) = set(source_of(path).samples()["train"])
    assert asked.answer is None and asked.answers == () and source_of(path).spec().has_unanswerable


@pytest.mark.parametrize("answers", [None, {"text": None, "answer_start": None}])
def test_question_whose_answer_is_missing_is_refused(tmp_path: Path, answers: Any) -> None:
    path = write(tmp_path / "data.jsonl", [{"question": "q", "context": "a b c", "answers": answers}])
    assert f"{path}, line 1 has no answer" in refusal(lambda: source_of(path))


# Formats.


def test_first_line_need_not_name_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("".join(f'he said "{row}\t{row % 2}\n' for row in range(40)))
    samples = source_of(path, column_names=["text", "label"]).samples()
    assert ('he said "0', "0") in [one for name in SPLIT_NAMES for one in samples[name]]


def test_delimiter_and_encoding_are_choices(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("".join(["text;label\n", *(f'"né;e {row}";{row % 2}\n' for row in range(40))]).encode("latin-1"))
    samples = source_of(path, delimiter=";", encoding="latin-1").samples()
    assert ("né;e 0", "0") in [one for name in SPLIT_NAMES for one in samples[name]]


def test_lines_within_quotes_count_as_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b'\xef\xbb\xbftext,label\r\n"two\r\nlines",a\r\n\r\nc\r\n')
    said = refusal(lambda: source_of(path))
    assert said.startswith(f"{path}, line 5 has 1 fields, and the columns are 2 (text, label)")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.csv", b"", "is empty: it must begin with a line that names its columns"),
        ("data.csv", b'text,label\n"open,1\n', "line 2 is not a line of fields .* data.quoted=false"),
        ("data.csv", b"text,label\n\xff,1\n", "is not text in data.encoding=utf-8 .byte 11 is 0xff"),
        ("data.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "line 2 is not JSON"),
        ("data.jsonl", b'{"text": "a", "label": 1}\n{"text": "b"}\n', "line 2 has no 'label', it has 'text'"),
        ("data.jsonl", b'{"text": "a", "label": 1}\n[1]\n', "entry 2 is no object with named values, but '.1.'"),
        ("data.json", b"[1, 2]", "entry 1 is no object with named values, but '1'"),
        ("data.json", b'[{"text": 1}, ', "line 1 is not JSON"),
        ("data.json", b"", "holds no objects"),
        ("data.json", b'{"a": \n1}', "must hold an object per line, a list of objects"),
        ("data.parquet", b"PAR1 and no more", "is not a whole Parquet file .* write it anew"),
    ],
)
def test_file_that_is_not_what_its_name_says_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refused:
        source_of(path).prepare()
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"delimiter": "::"}, "data.delimiter='::' must be one character"),
        ({"class_names": ["a"]}, "give at least two names"),
        ({"class_names": ["a", "a"]}, "no two of them alike"),
        ({"validation_share": 0.7, "test_share": 0.3}, "together below 1"),
        ({"max_length": 3}, "data.max_length=3 must be at least 8"),
        ({"packing": "loose"}, "data.packing=loose is unknown"),
    ],
)
def test_senseless_choices_are_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        CsvFiles(path="data.csv", **chosen)
