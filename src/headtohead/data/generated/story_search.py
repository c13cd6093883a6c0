"""Small sets for retrieval, written as files: sentences of the stories, queries, and which sentences are relevant.

`paraphrases`: a query tells what its documents tell of the same person, some of them in the same words, some in others.
`continuations`: a document goes on with the story of the query, and shares no word with it that tells anything; its
grade is 2, or 1 where it is about someone else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from headtohead.data.contracts import DataError
from headtohead.data.generated.stories import PEOPLE, THEN, TOPICS, WHEN

Kind = Literal["paraphrases", "continuations"]
Story = tuple[str, int]
"""Who, by name or pronoun, and which topic."""
_OPENINGS = THEN[0] + THEN[1]
_BEGINNINGS, _ENDS = (tuple(tuple(told.split(" / ")) for told in side) for side in zip(*TOPICS, strict=True))


@dataclass(frozen=True)
class SearchSet:
    """Documents and queries, and the grades of the documents that are relevant to each query, by their numbers."""

    documents: tuple[str, ...]
    queries: tuple[str, ...]
    relevant: tuple[dict[int, int], ...]

    def write(self, folder: Path) -> None:
        """corpus.jsonl, queries.jsonl and qrels.tsv, as BEIR has them (https://huggingface.co/datasets/BeIR/scifact)."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, letter, texts in (("corpus", "d", self.documents), ("queries", "q", self.queries)):
            lines = [json.dumps({"_id": f"{letter}{number}", "text": text}) for number, text in enumerate(texts)]
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        grades = [(query, *found) for query, own in enumerate(self.relevant) for found in own.items()]
        rows = [f"q{query}\td{document}\t{grade}" for query, document, grade in grades]
        told = "\n".join(["query-id\tcorpus-id\tscore", *rows])
        (folder / "qrels.tsv").write_text(told + "\n", encoding="utf-8")


def story_search(kind: str, *, num_queries: int = 200, per_story: int = 6, seed: int = 0) -> SearchSet:
    """There are `per_story` documents of each person and topic; no document and no query is there twice."""
    if kind not in get_args(Kind):
        raise DataError(f"--generate {kind} is unknown: choose one of {', '.join(get_args(Kind))}")
    generator = np.random.default_rng(seed)
    names = [name for name, _ in PEOPLE]
    sentences = _sentences(WHEN, names, _BEGINNINGS)
    documents = sentences if kind == "paraphrases" else _sentences(_OPENINGS, ["she", "he"], _ENDS)
    story_of = {name: name for name in names} if kind == "paraphrases" else dict(PEOPLE)
    texts, stories = _drawn(documents, per_story, generator)
    queries = [sentence for sentence in sentences if sentence[0] not in set(texts)]
    asked = [queries[place] for place in generator.permutation(len(queries))[:num_queries]]
    relevant = [
        {
            number: 2 if kind == "continuations" and who == story_of[asker] else 1
            for number, (who, topic) in enumerate(stories)
            if topic == about and (who == story_of[asker] or kind == "continuations")
        }
        for _, (asker, about) in asked
    ]
    return SearchSet(tuple(texts), tuple(text for text, _ in asked), tuple(relevant))


def _sentences(
    openings: Sequence[str], people: Sequence[str], told: Sequence[Sequence[str]]
) -> list[tuple[str, Story]]:
    return [
        (f"{opening}{who} {told[topic][way]} .", (who, topic))
        for opening in openings
        for who in people
        for topic in range(len(told))
        for way in range(len(told[topic]))
    ]


def _drawn(
    sentences: Sequence[tuple[str, Story]], per_story: int, generator: np.random.Generator
) -> tuple[list[str], list[Story]]:
    kept: list[tuple[str, Story]] = []
    for story in dict.fromkeys(story for _, story in sentences):
        own = [sentence for sentence in sentences if sentence[1] == story]
        if per_story > len(own):
            raise DataError(f"per_story={per_story}: there are only {len(own)} sentences of each story, give fewer")
        kept += [own[place] for place in generator.permutation(len(own))[:per_story]]
    mixed = [kept[place] for place in generator.permutation(len(kept))]
    return [text for text, _ in mixed], [story for _, story in mixed]
