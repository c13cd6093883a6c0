"""Labels, tags and answers in words: what is read and written, from generated data, files and published sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import DataError, DataSource
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.generated.pair_grammar import PairGrammar
from headtohead.data.generated.qa_grammar import QaGrammar
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.generated.tagging_grammar import TaggingGrammar
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.hub.hub_tables import HubTables
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.text_to_text import TextToText

FEW = {"num_train": 120, "num_validation": 20, "num_test": 20}


def pairs(source: DataSource, split: str = "test") -> list[tuple[str, str]]:
    rows = source.split(split)  # type: ignore[arg-type]
    batch = rows.batch(np.arange(len(rows)))
    return [(one["source"], one["target"]) for one in source.describe(batch)]


def table(folder: Path, rows: list[dict[str, Any]]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_a_label_is_written_by_its_name_or_the_word_given_for_it() -> None:
    inner = from_fields(SentenceGrammar, **FEW)
    samples = inner.samples()["test"]
    assert pairs(from_fields(TextToText, of=inner)) == [
        (f"classify: {text}", ("negative", "positive")[int(label)]) for text, label in samples
    ]
    source = from_fields(TextToText, of=inner, template="{text} It was", label_words=["bad", "good"])
    assert pairs(source) == [(f"{text} It was", ("bad", "good")[int(label)]) for text, label in samples]
    labels = [int(label) for _, label in inner.samples()["train"]]
    shares = sorted((labels.count(0) / len(labels), labels.count(1) / len(labels)), reverse=True)
    spec = source.spec()
    assert (spec.written_as, spec.label_words, spec.answer_shares) == ("label", ("bad", "good"), tuple(shares))
    assert spec.kind == "pairs_of_text" and spec.num_classes == 0


def test_two_texts_stand_in_one() -> None:
    inner = from_fields(PairGrammar, **FEW)
    first, second, label = inner.samples()["test"][0]
    read, written = pairs(from_fields(TextToText, of=inner))[0]
    assert read == f"classify: first: {first} second: {second}"
    assert written == label


def test_tags_are_written_as_entities() -> None:
    inner = from_fields(TaggingGrammar, **FEW)
    spec = from_fields(TextToText, of=inner).spec()
    assert spec.written_as == "entities"
    for (read, written), (words, tags) in zip(
        pairs(from_fields(TextToText, of=inner)), inner.samples()["test"], strict=True
    ):
        assert read == f"tag: {' '.join(words)}"
        message = [] if written == "none" else [part.split(": ") for part in written.split(" ; ")]
        assert [kind for kind, _ in message] == [str(tag)[2:] for tag in tags if str(tag).startswith("B-")]
        inside = [word for word, tag in zip(words, tags, strict=True) if tag != "O"]
        assert [word for _, entity in message for word in entity.split()] == inside


def test_an_answer_is_written_out() -> None:
    inner = from_fields(QaGrammar, **FEW)
    expected = [(f"question: {one.question} context: {one.context}", one.answer) for one in inner.samples()["test"]]
    assert pairs(from_fields(TextToText, of=inner)) == expected
    assert from_fields(TextToText, of=inner).spec().written_as == "answer"


def test_files_of_ones_own_are_put_in_words(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n" + "".join(f"film {row},{('bad', 'fine')[row % 2]}\n" for row in range(60)))
    result = pairs(from_fields(TextToText, of=from_fields(CsvFiles, path=str(path))), "train")
    assert all(written == ("bad", "fine")[int(read.split()[-1]) % 2] for read, written in result) and len(result) == 54


def test_questions_of_files_that_are_not_answered_are_declared_to_be_so(tmp_path: Path) -> None:
    answered = {"text": ["Oslo"], "answer_start": [0]}
    rows = [
        {"id": str(row), "question": f"where {row} ?", "context": f"Oslo is {row} .", "answers": answers}
        for row, answers in enumerate([answered, {"text": [], "answer_start": []}] * 30)
    ]
    result = pairs(from_fields(TextToText, of=from_fields(JsonFiles, path=table(tmp_path, rows))), "train")
    assert {written for _, written in result} == {"Oslo", "unanswerable"}
    assert all((written == "Oslo") == (int(read.split()[2]) % 2 == 0) for read, written in result)


def test_a_published_set_is_put_in_words_by_the_names_of_its_classes(tmp_path: Path) -> None:
    from datasets import ClassLabel, Features, Value

    from published_sets.writing import write_card, write_parquet

    features = Features({"sentence": Value("string"), "label": ClassLabel(names=["sad", "glad"])})
    write_card(tmp_path, {"license": "mit"})
    for split in ("train", "validation", "test"):
        rows = [{"sentence": f"{split} {row}", "label": row % 2} for row in range(20)]
        write_parquet(tmp_path / f"data/{split}-00000-of-00001.parquet", rows, features)
    result = pairs(from_fields(TextToText, of=from_fields(HubTables, folder=str(tmp_path))))
    assert result == [(f"classify: test {row}", ("sad", "glad")[row % 2]) for row in range(20)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"template": "{sentence}"}, r"data\.template='\{sentence\}' must name \{text\}, and nothing else"),
        ({"template": "read this"}, r"must name \{text\}"),
        ({"template": "{text"}, r"cannot be filled .*it takes \{text\}"),
        ({"label_words": ["yes"]}, r"data\.label_words=\['yes'\] are 1, and the labels are 2 \(negative, positive\)"),
        ({"label_words": ["yes", " yes"]}, r"no two may be alike"),
    ],
)
def test_templates_and_words_that_do_not_fit_are_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        from_fields(TextToText, of=from_fields(SentenceGrammar, **FEW), **changes).prepare()


def test_data_that_is_not_put_in_words_is_refused() -> None:
    with pytest.raises(DataError, match=r"data\.of=null is not a source of texts"):
        from_fields(TextToText)
    with pytest.raises(DataError, match=r"data\.of is of kind language, which is not put in words"):
        from_fields(TextToText, of=from_fields(GrammarCorpus, **FEW, context_length=16)).prepare()
    with pytest.raises(DataError, match=r"data\.label_words=\['a', 'b'\] has no meaning for tagged_text"):
        from_fields(TextToText, of=from_fields(TaggingGrammar, **FEW), label_words=["a", "b"]).prepare()


def test_tags_that_do_not_say_where_an_entity_begins_are_refused(tmp_path: Path) -> None:
    rows = [{"tokens": ["it", "rains"], "tags": ["PRON", "VERB"]}] * 30
    with pytest.raises(
        DataError, match=r"tag 'PRON', which does not say where an entity begins.*data\.of\.class_names"
    ):
        from_fields(TextToText, of=from_fields(JsonFiles, path=table(tmp_path, rows))).prepare()
