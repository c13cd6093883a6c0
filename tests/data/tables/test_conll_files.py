"""Tagged words of the user's own, a word a line; and translations, a line beside a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.sources.line_files import ConllFiles, ParallelText

CONLL = (
    "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n. . O O\n\t\nRome NNP B-NP B-LOC\r\n\n\n\nIn IN O O"
)


def written(path: Path, text: str, *, times: int = 1) -> Path:
    path.write_bytes("\n\n".join([text] * times).encode())
    return path


def refusal(source: Any) -> str:
    with pytest.raises(DataError) as refused:
        source().prepare()
    return str(refused.value)


def test_sentences_end_at_blank_lines_and_documents_begin_with_no_word(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", CONLL)
    assert list(from_fields(ConllFiles, path=str(path)).read(path)) == [
        ((("EU", "rejects", "."), ("B-ORG", "O", "O")), 3),
        ((("Rome",), ("B-LOC",)), 7),
        ((("In",), ("O",)), 11),
    ]


def test_fields_of_a_line_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "1 EU B-ORG _\n2 is O _\n")
    ((sample, _),) = from_fields(ConllFiles, path=str(path), word_field=1, tag_field=2).read(path)
    assert sample == (("EU", "is"), ("B-ORG", "O"))


def test_files_of_a_folder_are_splits(tmp_path: Path) -> None:
    for name, times in (("train", 9), ("dev", 2), ("test", 3)):
        written(tmp_path / f"{name}.conll", CONLL, times=times)
    samples = from_fields(ConllFiles, path=str(tmp_path)).samples()
    assert [len(samples[name]) for name in SPLIT_NAMES] == [27, 6, 9]


@pytest.mark.parametrize(
    ("text", "chosen", "message"),
    [
        ("EU B-ORG\nrejects\n", {}, "line 2 has one field, and must have a word and its tag"),
        ("EU B-ORG\n", {"tag_field": 3}, "line 1 has 2 fields, and data.word_field=0 and data.tag_field=3"),
        ("EU B-ORG\n\nis O\n", {"class_names": ["O", "B-PER"]}, "line 1 has tag 'B-ORG', which is not in"),
        ("\n\n", {}, "has no samples for the train split"),
    ],
)
def test_bad_line_is_named_with_its_file(tmp_path: Path, text: str, chosen: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "a.conll", "\n".join([text] * 20))
    sentence = refusal(lambda: from_fields(ConllFiles, path=str(path), **chosen))
    assert str(path) in sentence and message in sentence


def test_tag_that_training_does_not_have_is_named_with_its_own_file(tmp_path: Path) -> None:
    written(tmp_path / "train.conll", CONLL, times=20)
    dev = written(tmp_path / "dev.conll", "is O\n\nEU B-PRODUCT\n")
    assert refusal(lambda: from_fields(ConllFiles, path=str(tmp_path))).startswith(
        f"{dev}, line 3 has tag 'B-PRODUCT', which the train split does not have (O, B-LOC, B-ORG)"
    )


def translations(folder: Path, *, sources: str, targets: str) -> Path:
    (folder / "train.en").write_text(targets)
    return written(folder / "train.de", sources)


def test_lines_of_two_files_are_pairs_in_the_direction_requested(tmp_path: Path) -> None:
    lines = range(40)
    path = translations(
        tmp_path, sources="".join(f"Zeile {row}\n" for row in lines), targets="".join(f"line {row}\n" for row in lines)
    )
    there = from_fields(ParallelText, path=str(path), source="de", target="en").samples()
    back = from_fields(ParallelText, path=str(tmp_path), source="en", target="de").samples()
    assert there["train"][0] in {(f"Zeile {row}", f"line {row}") for row in lines}
    assert sorted((target, source) for name in SPLIT_NAMES for source, target in back[name]) == sorted(
        pair for name in SPLIT_NAMES for pair in there[name]
    )


def test_changed_translation_is_read_anew(tmp_path: Path) -> None:
    sources, targets = "a\n" * 40, "b\n" * 40
    path = translations(tmp_path, sources=sources, targets=targets)
    first = from_fields(ParallelText, path=str(path), source="de", target="en").spec().data_hash
    (tmp_path / "train.en").write_text("c\n" * 40)
    assert from_fields(ParallelText, path=str(path), source="de", target="en").spec().data_hash != first


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ("a\nb\nc\n", "a\nb\n", "has 3 lines and .*train.en has 2: they must go together line by line"),
        ("a\n\nc\n" * 9, "a\nb\nc\n" * 9, "train.de, line 2: its source is empty"),
    ],
)
def test_lines_that_do_not_go_together_are_refused(tmp_path: Path, sources: str, targets: str, message: str) -> None:
    path = translations(tmp_path, sources=sources, targets=targets)
    with pytest.raises(DataError, match=message):
        from_fields(ParallelText, path=str(path), source="de", target="en").prepare()


def test_missing_translation_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "train.de", "a\n")
    message = refusal(lambda: from_fields(ParallelText, path=str(path), source="de", target="fr"))
    assert message == (
        f"{path} has no translation beside it: {tmp_path / 'train.fr'} does not exist; correct data.target."
    )
    assert "data.source=None and data.target=fr must be two endings" in refusal(
        lambda: from_fields(ParallelText, target="fr")
    )
