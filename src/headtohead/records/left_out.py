"""Sentences about rows that were left out because they lack a value, from what a record knows of them."""

from __future__ import annotations

from collections.abc import Iterable

from headtohead.data.splits.left_out_rows import LEFT_OUT, LeftOutFacts
from headtohead.records.leaks import sentences_by_arm
from headtohead.records.record import RunRecord

_ARTICLES = {"answer": "an ", "tags": ""}


def left_out_sentence(facts: LeftOutFacts) -> str | None:
    """Return how many rows are left out and what they lack; None where none is."""
    if not facts:
        return None
    lacking = ", ".join(
        f"{times:,} without {_ARTICLES.get(part, 'a ')}{part.replace('_', ' ')}"
        for part, times in facts["without"].items()
    )
    are = "lacks a value and is" if facts["rows"] == 1 else "lack a value and are"
    return f"{facts['rows']:,} of {facts['of']:,} rows {are} left out ({lacking})"


def left_out_in(records: Iterable[RunRecord]) -> list[str]:
    """Return a sentence for each way in which the data of these runs leave rows out, with the arms where they
    differ in it."""
    return sentences_by_arm((record.arm, left_out_sentence(record.data.get(LEFT_OUT, {}))) for record in records)
