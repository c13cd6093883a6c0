"""Rows that share a text or a value stay on one side, so that nothing is measured by what was learned."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from data.tables.written_tables import LABELLED, Row, refusal, source_of, write
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.sources.table_files import TableFiles

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
    """Return the values of a column in each split."""
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
    """Rows 2 n and 2 n + 1 share a question, and 2 n + 1 and 2 n + 2 a topic, in chains of ten."""
    rows = [
        {**row, "asked": f"q{number // 2}", "about": f"s{(number + 1) // 2 + number // 10 * 100}"}
        for number, row in enumerate(CLAIMS)
    ]
    source = source_of(write(tmp_path / "data.jsonl", rows), **SHARED, share_by=["asked", "about"])
    of_chain = {row["text"]: number // 10 for number, row in enumerate(rows)}
    for name, chains in (("validation", 2), ("test", 3)):
        result = Counter(of_chain[sample[0]] for sample in source.samples()[name])
        assert set(result.values()) == {10} and len(result) <= chains


def test_rows_without_a_value_share_none(tmp_path: Path) -> None:
    rows: list[dict] = [{**row, "about": None} for row in CLAIMS]
    alone = source_of(write(tmp_path / "data.parquet", rows), **SHARED, share_by="about")
    assert [len(alone.samples()[name]) for name in SPLIT_NAMES] == [84, 12, 24]
    for number, nothing in enumerate((float("nan"), [], " ")):
        rows = [{**row, "about": nothing} for row in CLAIMS]
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        assert len(source_of(path, **SHARED, share_by="about").samples()["test"]) == 24, nothing


def test_integers_share_with_themselves_however_a_file_writes_them(tmp_path: Path) -> None:
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
    for index, name in enumerate(SPLIT_NAMES):
        write(tmp_path / f"{name}.csv", LABELLED[20 * index : 20 * index + 20])
    assert len(source_of(tmp_path, share_by="about").samples()["test"]) == 20


def test_a_column_that_shares_nothing_out_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", CLAIMS)
    message = refusal(lambda: source_of(path, **SHARED, share_by="abuot"))
    assert f"data.share_by=abuot is not a column of {path}, which has about, claim, text, label" in message
    message = refusal(lambda: source_of(path, **SHARED, share_by="label"))
    assert "has 120 samples in 2 groups by data.share_by=label, too few to share out to three splits" in message


def test_questions_of_one_context_are_drawn_for_the_same_split(tmp_path: Path) -> None:
    rows = [{"question": f"q{row}", "context": f"{row // 5} is it", "answer": "is"} for row in range(200)]
    samples = source_of(write(tmp_path / "data.jsonl", rows), validation_share=0.11).samples()
    contexts = [{options.context for options in samples[name]} for name in SPLIT_NAMES]
    assert sum(map(len, contexts)) == len(set.union(*contexts)) == 40
    assert [len(samples[name]) for name in SPLIT_NAMES] == [165, 25, 10], "22 and 10 rows, rounded up to whole contexts"


def test_questions_of_too_few_contexts_are_reported_to_be_in_groups(tmp_path: Path) -> None:
    rows = [{"question": f"q{row}", "context": f"{max(row, 97)} is it", "answer": "is"} for row in range(101)]
    message = refusal(lambda: source_of(write(tmp_path / "data.jsonl", rows)))
    assert "has 101 samples in 4 groups, each of which stands in one split, too few to share out" in message
