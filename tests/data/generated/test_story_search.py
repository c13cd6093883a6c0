"""The generated sets for retrieval: what is relevant follows from the stories themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.data.data_source import DataError
from headtohead.data.generated.stories import PEOPLE, TOPICS, story_search


def story_of(text: str, message: tuple[str, ...]) -> tuple[str, int]:
    """Return the person, as a name or pronoun, and the topic, found by the words alone."""
    [topic] = [number for number, ways in enumerate(message) if any(way in text for way in ways.split(" / "))]
    [who] = [name for name in (*dict(PEOPLE), "she", "he") if name in text.split()]
    return who, topic


BEGINNINGS, ENDS = zip(*TOPICS, strict=True)


def test_a_paraphrase_tells_the_same_of_the_same_person() -> None:
    result = story_search("paraphrases", num_queries=50)
    documents = [story_of(text, BEGINNINGS) for text in result.documents]
    for query, relevant in zip(result.queries, result.relevant, strict=True):
        expected = [number for number, story in enumerate(documents) if story == story_of(query, BEGINNINGS)]
        assert relevant == dict.fromkeys(expected, 1) and len(expected) == 6
    assert len(set(result.documents)) == 192 and not set(result.queries) & set(result.documents)


def test_a_continuation_fits_person_and_topic_in_other_words() -> None:
    result = story_search("continuations", num_queries=50, per_story=4, seed=1)
    documents = [story_of(text, ENDS) for text in result.documents]
    for query, relevant in zip(result.queries, result.relevant, strict=True):
        name, topic = story_of(query, BEGINNINGS)
        assert relevant == {
            number: 2 if who == dict(PEOPLE)[name] else 1
            for number, (who, about) in enumerate(documents)
            if about == topic
        }
        assert sorted(relevant.values()) == [1] * 4 + [2] * 4


def test_files_are_those_of_beir(tmp_path: Path) -> None:
    result = story_search("paraphrases", num_queries=3)
    result.write(tmp_path / "set")
    corpus = [json.loads(line) for line in (tmp_path / "set" / "corpus.jsonl").read_text().splitlines()]
    assert [row["text"] for row in corpus] == list(result.documents) and corpus[4]["_id"] == "d4"
    head, *rows = (tmp_path / "set" / "qrels.tsv").read_text().splitlines()
    assert head.split("\t") == ["query-id", "corpus-id", "score"]
    assert {tuple(row.split("\t")) for row in rows} == {
        (f"q{query}", f"d{document}", "1") for query, own in enumerate(result.relevant) for document in own
    }


def test_unknown_kinds_and_too_many_are_refused() -> None:
    with pytest.raises(DataError, match="--generate jokes is unknown: choose one of paraphrases, continuations"):
        story_search("jokes")
    with pytest.raises(DataError, match="only 40 sentences of each story"):
        story_search("paraphrases", per_story=41)
