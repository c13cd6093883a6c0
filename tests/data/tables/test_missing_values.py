"""Rows that lack a value are refused with their place, or left out and counted, whatever file and column it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pandas
import pytest

from data.tables.test_table_kinds import KINDS
from data.tables.written_tables import Row, refusal, source_of, write
from from_fields import from_fields
from headtohead.api.own_data import describe_data, overrides_for
from headtohead.config.build import build_data
from headtohead.config.compose.composition import compose_checked
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.sources.column_roles import COLUMN_ROLES
from headtohead.data.sources.hub.hub_tables import HubTables
from headtohead.data.sources.line_files import ConllFiles, ParallelText
from headtohead.data.sources.missing_values import missing_parts
from headtohead.data.sources.mixed_corpus import MixedCorpus
from headtohead.data.sources.table_files import TableFiles
from headtohead.data.sources.text_to_text import TextToText
from headtohead.records.left_out import left_out_sentence

WITHOUT = {3, 40}
"""The rows that lack a value, of 60."""
FORMATS = ("csv", "jsonl", "parquet")
TYPED = ("jsonl", "parquet")
"""Formats that have a word for no value; the other has empty fields."""


@dataclass(frozen=True)
class Case:
    kind: str
    part: str
    ending: str
    value: Any

    def rows(self) -> list[Row]:
        row, columns, _ = KINDS[self.kind]
        column = columns[f"{self.part}_column"]
        return [{**row(n), column: self.value} if n in WITHOUT else row(n) for n in range(60)]

    def source(self, folder: Path, missing: str) -> TableFiles:
        file = write(folder / f"data.{self.ending}", self.rows())
        return source_of(file, **KINDS[self.kind][1], missing=missing)

    def __str__(self) -> str:
        return f"{self.kind}, {self.part}, {self.ending}, {self.value!r}"


def cases() -> Iterator[Case]:
    """Yield every part that a kind of data needs, in every format, without a value in each way that it can be."""
    for kind, (row, columns, _) in KINDS.items():
        needed, optional = COLUMN_ROLES[kind.split()[0]]  # type: ignore[index]
        for part in sorted(needed | (optional - {"id", "answer_start"})):
            if f"{part}_column" not in columns:
                continue
            example = row(0)[columns[f"{part}_column"]]
            for ending in FORMATS:
                ways: list[Any] = [None] if ending in TYPED else [""]
                if isinstance(example, str):
                    ways.append(" ")
                if isinstance(example, float):
                    ways.append(float("nan"))
                if isinstance(example, list) and ending in TYPED:
                    ways += [[], [*example[:-1], None]]
                for value in ways:
                    yield Case(kind, part, ending, value)


ALL = list(cases())


def test_every_part_that_any_kind_needs_is_tried() -> None:
    needed = {part for own, _ in COLUMN_ROLES.values() for part in own}
    assert {case.part for case in ALL} == needed | {"second_text"}
    assert not missing_parts({"id": None, "answer_start": None}), "they are not needed"


@pytest.mark.parametrize("case", ALL, ids=str)
def test_rows_without_a_value_are_left_out_and_counted(case: Case, tmp_path: Path) -> None:
    sample = KINDS[case.kind][2]
    source = case.source(tmp_path, "drop")
    samples = source.samples()
    together = sorted((one for name in SPLIT_NAMES for one in samples[name]), key=str)
    assert together == sorted((sample(number) for number in range(60) if number not in WITHOUT), key=str)
    file = f"data.{case.ending}"
    assert source.left_out_facts() == {"rows": 2, "of": 60, "without": {case.part: 2}, "files": {file: 2}}
    source.samples()
    assert source.left_out_facts()["rows"] == 2, "a file that is read again counts once"


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_same_rows_are_refused_with_their_place_unless_they_are_to_be_left_out(case: Case, tmp_path: Path) -> None:
    source = case.source(tmp_path, "refuse")
    if case.kind == "language" and isinstance(case.value, str):
        samples = source.samples()
        assert sum(map(len, samples.values())) == 58 and not source.left_out_facts(), "blank documents are none"
        return
    with pytest.raises(DataError) as refused:
        source.samples()
    message, first = str(refused.value), {"jsonl": "line 4", "parquet": "row 4", "csv": "line 5"}[case.ending]
    assert f", {first}: its {case.part.replace('_', ' ')} " in message and "empty" in message
    assert "data.missing=drop" in message


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_description_names_them_and_its_command_trains_without_them(kind: str, tmp_path: Path) -> None:
    part = sorted(COLUMN_ROLES[kind.split()[0]][0])[0]  # type: ignore[index]
    pairs = {"text": "sentence1", "second_text": "sentence2"} if "pairs" in kind or kind == "scored_text" else {}
    usual = {**pairs, **({"text": "tokens"} if kind == "tagged_text" else {}), "answer_start": "start"}
    roles = {column: name.removesuffix("_column") for name, column in KINDS[kind][1].items()}
    case = Case(kind, part, "jsonl", None)
    named = {column: usual.get(role, role) for column, role in roles.items()}
    renamed = [{named[own]: value for own, value in row.items() if own in named} for row in case.rows()]
    described = describe_data(write(tmp_path / "data.jsonl", renamed))
    assert described.kind == kind.split()[0] and "data.missing=drop" in described.command
    assert any(remark.startswith("2 of 60 rows lack a value") for remark in described.remarks)
    source = build_data(compose_checked("train", [*described.overrides, "data.tokenizer=char"]))
    assert source.left_out()["rows"] == 2


MIXED: Mapping[str, list[Row]] = {
    "blank documents beside a null": [
        *({"text": f"row {n} of them"} for n in range(60)), {"text": ""}, {"text": " "}, {"text": None},
    ],
    "blank documents alone": [*({"text": f"row {n} of them"} for n in range(60)), {"text": ""}],
    "a label that no run reads": [*({"text": f"row {n} of them", "label": "a"} for n in range(99)), {"text": "b c"}],
    "lists that a row lacks": [
        *({"w": ["a", f"b{n}"], "t": ["O", "X"]} for n in range(60)), {"w": ["a"]}, {"t": ["O"]},
        {"w": ["a", None], "t": ["O", "O"]},
    ],
    "an answer that a row lacks": [
        *({"context": f"c {n}", "question": f"q {n}", "answer": f"{n}"} for n in range(60)),
        {"context": "c", "question": "q"},
    ],
}  # fmt: skip


LINES: Mapping[str, Mapping[str, str]] = {
    "a word without a tag": {"a.conll": "\n\n".join([*(f"w{n} O\nx B-A" for n in range(60)), "y\nz O"])},
    "lines without a text": {
        "train.de": "\n".join([*(f"wort {n}" for n in range(60)), "", "x"]) + "\n",
        "train.en": "\n".join([*(f"word {n}" for n in range(60)), "", ""]) + "\n",
    },
}


@pytest.mark.parametrize("files", LINES.values(), ids=LINES)
def test_a_description_of_lines_counts_what_its_command_leaves_out(files: Mapping[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    check_description(tmp_path)


def test_a_file_without_any_tag_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a\nb\n\nc\n", encoding="utf-8")
    with pytest.raises(DataError, match="no samples for the train split: 2 rows lack a value"):
        describe_data(tmp_path / "a.conll")


@pytest.mark.parametrize("rows", MIXED.values(), ids=MIXED)
def test_a_description_counts_what_its_command_leaves_out(rows: list[Row], tmp_path: Path) -> None:
    check_description(write(tmp_path / "data.jsonl", rows))


def check_description(path: Path) -> None:
    described = describe_data(path)
    source = build_data(compose_checked("train", [*described.overrides, "data.tokenizer=char"]))
    sentence = left_out_sentence(source.left_out())
    shown = [remark for remark in described.remarks if "left out" in remark]
    assert ("data.missing=drop" in described.command) == (sentence is not None)
    assert [remark.partition(" by data")[0] for remark in shown] == ([] if sentence is None else [sentence])
    assert " a answer" not in str(sentence) and " a tags" not in str(sentence)


class LikePolars:
    """A frame that writes Parquet as polars does, for which no number and no value are two things."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def write_parquet(self, file: str) -> None:
        write(Path(file), self.rows)


FRAMES: Mapping[str, Callable[[list[Row]], object]] = {
    "pandas": pandas.DataFrame,
    "polars": LikePolars,
    "datasets": lambda rows: datasets.Dataset.from_list([dict(row) for row in rows]),
}


@pytest.mark.parametrize("made", FRAMES)
@pytest.mark.parametrize(("column", "value"), [("text", None), ("label", None), ("label", float("nan"))])
def test_frames_lose_the_rows_that_lack_a_value(made: str, column: str, value: Any) -> None:
    rows: list[Row] = [{"text": f"row {n} of them", "label": float(n % 2)} for n in range(60)]
    rows[3] = {**rows[3], column: value}
    overrides = overrides_for(FRAMES[made](rows))
    assert "data.missing=drop" in overrides
    source = build_data(compose_checked("train", [*overrides, "data.tokenizer=char"]))
    assert source.left_out() == {**source.left_out(), "rows": 1, "of": 60, "without": {column: 1}}
    assert source.spec().class_names == ("0", "1")


def test_words_of_programs_for_no_number_are_missing_scores_and_nothing_else() -> None:
    for word in ("", "NaN", "NA", "n/a", "null", "None", " nan "):
        assert missing_parts({"score": word}) == ["score"]
    assert not missing_parts({"label": "NA", "text": "null", "score": "high", "tags": ["None"]})


def refused_lines(made: Callable[..., Any], **chosen: Any) -> str:
    with pytest.raises(DataError) as refused:
        from_fields(made, **chosen).samples()
    return str(refused.value)


def test_sentences_and_pairs_of_lines_without_a_side_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("in O\nTown\n\n" + "a O\nTown B-LOC\n\n" * 40)
    tagged = from_fields(ConllFiles, path=str(tmp_path / "a.conll"), missing="drop")
    assert sum(map(len, tagged.samples().values())) == 40
    assert tagged.left_out_facts() == {"rows": 1, "of": 41, "without": {"tags": 1}, "files": {"a.conll": 1}}
    assert "line 2 has one field" in refused_lines(ConllFiles, path=str(tmp_path / "a.conll"))
    (tmp_path / "a.de").write_text("ein\n\nwort\n" * 20)
    (tmp_path / "a.en").write_text("one\n\n\n" * 20)
    chosen = {"path": str(tmp_path), "source": "de", "target": "en"}
    pairs = from_fields(ParallelText, **chosen, missing="drop")
    assert sum(map(len, pairs.samples().values())) == 20
    assert pairs.left_out_facts()["without"] == {"target": 40, "source": 20}
    assert "a.de, line 2: its source is empty" in refused_lines(ParallelText, **chosen)


def test_a_published_set_leaves_them_out_unless_they_are_to_be_refused(tmp_path: Path) -> None:
    rows: list[Row] = [{"sentence1": "a", "sentence2": f"b {n}", "score": n / 8} for n in range(60)]
    write(tmp_path / "train.parquet", [*rows, {**rows[0], "score": None}])
    chosen = {"folder": str(tmp_path), "tokenizer": "char"}
    assert from_fields(HubTables, **chosen).left_out()["without"] == {"score": 1}
    assert "row 61: its score is empty" in refusal(lambda: from_fields(HubTables, **chosen, missing="refuse"))


def test_sources_made_of_others_tell_what_these_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "data.csv", Case("labelled_text", "label", "csv", "").rows())
    labelled = source_of(file, text_column="review", label_column="stars", missing="drop")
    assert from_fields(TextToText, of=labelled, tokenizer="char").left_out()["rows"] == 2
    corpus = source_of(file, text_column="review", context_length=16, missing="drop")
    other = source_of(write(tmp_path / "other.jsonl", [{"text": None}, *({"text": f"a {n}"} for n in range(60))]),
                      text_column="text", context_length=16, missing="drop")  # fmt: skip
    made = from_fields(GrammarCorpus, num_train=20, num_validation=4, num_test=4, context_length=16, tokenizer="char")
    assert MixedCorpus(sources={"a": corpus, "b": other}).left_out() == other.left_out()
    assert MixedCorpus(sources={"a": other, "b": other}).left_out()["rows"] == 2
    assert made.left_out() == {}


def test_a_way_that_is_none_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "data.csv", [{"text": "a", "label": "b"}])
    assert "data.missing=skip is unknown: choose one of refuse, drop." in refusal(
        lambda: source_of(file, missing="skip")
    )


def test_a_split_of_which_nothing_is_left_says_why(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [{"text": f"row {n}", "label": n % 2} for n in range(60)])
    write(tmp_path / "test.csv", [{"text": f"test {n}", "label": ""} for n in range(6)])
    message = refusal(lambda: source_of(tmp_path, missing="drop"))
    assert "no samples for the test split: 6 rows lack a value, and data.missing=drop leaves them out" in message
