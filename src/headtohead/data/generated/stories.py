"""Stories of a few sentences, as pairs of which one follows the other, and as small sets for retrieval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from headtohead.data.data_source import DataError
from headtohead.data.generated.english_grammar import words
from headtohead.files.atomic_write import replace_text

_AT_ONCE = 4096
"""Pairs written together."""
NEXT, RANDOM = "next", "random"
WOMEN, MEN = words("anna clara elena maria"), words("boris david hugo peter")
PEOPLE = tuple((name, "she") for name in WOMEN) + tuple((name, "he") for name in MEN)
TOPICS = (
    ("bought a violin / joined the orchestra", "practised every scale / tuned the strings"),
    ("planted potatoes / bought a tractor", "waited for rain / sold the harvest"),
    ("went to the harbour / learned to sail", "feared the waves / hoisted the anchor"),
    ("called a doctor / fell ill", "stayed in bed / took the medicine"),
)
"""The beginnings of stories, and what may follow: never the same words, so that their connection must be learned."""
_BEGINNINGS, _ENDS = (tuple(tuple(phrase.split(" / ")) for phrase in side) for side in zip(*TOPICS, strict=True))
_NUM_WAYS = 2
"""The number of wordings of each beginning and each end."""
WHEN = (
    "", "last week ", "in spring ", "one day ", "at last ", "after a quarrel ", "on a sunday ", "this year ",
    "much later ", "at the age of forty ", "without a word ", "to our surprise ", "as a child ", "in winter ",
    "for a change ", "before the war ", "against all advice ", "on a whim ", "for no reason ", "long ago ",
)  # fmt: skip
THEN = (
    (
        "then ", "so ", "after that ", "of course ", "in the end ", "therefore ", "since that day ", "by and by ",
        "from then on ", "all the same ",
    ),
    (
        "", "every day ", "for a year ", "at first ", "with great care ", "as always ", "for once ", "more than once ",
        "without complaint ", "as they say ",
    ),
)  # fmt: skip
"""They make pairs differ. The first, which join sentences, are a little more common where there is something to join:
without any hint at all, learning finds no beginning."""
JOINED_SHARES = {NEXT: 0.6, RANDOM: 0.4}


def story_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Yield, without end, a first sentence, a second one, and whether it is the next of the same story or comes from
    another story, about anyone."""
    while True:
        people, others = generator.integers(len(PEOPLE), size=(2, _AT_ONCE))
        topics = generator.integers(len(TOPICS), size=_AT_ONCE)
        other_topics = (topics + generator.integers(1, len(TOPICS), size=_AT_ONCE)) % len(TOPICS)
        wording = generator.integers(_NUM_WAYS, size=(_AT_ONCE, 2))
        when, then = generator.integers(len(WHEN), size=_AT_ONCE), generator.integers(len(THEN[0]), size=_AT_ONCE)
        follows = generator.random(_AT_ONCE) < 0.5
        joined = generator.random(_AT_ONCE) < np.where(follows, *JOINED_SHARES.values())
        for row in range(_AT_ONCE):
            person, topic = (people[row], topics[row]) if follows[row] else (others[row], other_topics[row])
            first = f"{WHEN[when[row]]}{PEOPLE[people[row]][0]} {_BEGINNINGS[topics[row]][wording[row, 0]]} ."
            second = f"{THEN[0 if joined[row] else 1][then[row]]}{PEOPLE[person][1]} {_ENDS[topic][wording[row, 1]]} ."
            yield first, second, NEXT if follows[row] else RANDOM


Kind = Literal["paraphrases", "continuations"]
Story = tuple[str, int]
"""A story: its person, by name or pronoun, and its topic."""
_OPENINGS = THEN[0] + THEN[1]
_BEGINNINGS, _ENDS = (tuple(tuple(phrase.split(" / ")) for phrase in side) for side in zip(*TOPICS, strict=True))


@dataclass(frozen=True)
class SearchSet:
    """Documents and queries, and the grades of the documents that are relevant to each query, by their numbers."""

    documents: tuple[str, ...]
    queries: tuple[str, ...]
    relevant: tuple[dict[int, int], ...]

    def write(self, folder: Path) -> None:
        """Write corpus.jsonl, queries.jsonl and qrels.tsv in BEIR's format
        (https://huggingface.co/datasets/BeIR/scifact)."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, letter, texts in (("corpus", "d", self.documents), ("queries", "q", self.queries)):
            lines = [json.dumps({"_id": f"{letter}{number}", "text": text}) for number, text in enumerate(texts)]
            replace_text(folder / f"{name}.jsonl", "\n".join(lines) + "\n")
        grades = [(query, *judgement) for query, own in enumerate(self.relevant) for judgement in own.items()]
        rows = [f"q{query}\td{document}\t{grade}" for query, document, grade in grades]
        judgements = "\n".join(["query-id\tcorpus-id\tscore", *rows])
        replace_text(folder / "qrels.tsv", judgements + "\n")


def story_search(kind: str, *, num_queries: int = 200, per_story: int = 6, seed: int = 0) -> SearchSet:
    """Return a search set with `per_story` documents of each person and topic, without duplicate documents or
    queries."""
    if kind not in get_args(Kind):
        raise DataError(f"--generate {kind} is unknown: choose one of {', '.join(get_args(Kind))}")
    generator = np.random.default_rng(seed)
    names = [name for name, _ in PEOPLE]
    sentences = _sentences(WHEN, names, _BEGINNINGS)
    documents = sentences if kind == "paraphrases" else _sentences(_OPENINGS, ["she", "he"], _ENDS)
    story_of = {name: name for name in names} if kind == "paraphrases" else dict(PEOPLE)
    texts, stories = _drawn(documents, per_story, generator)
    queries = [sentence for sentence in sentences if sentence[0] not in set(texts)]
    chosen = [queries[index] for index in generator.permutation(len(queries))[:num_queries]]
    relevant = [
        {
            number: 2 if kind == "continuations" and who == story_of[asker] else 1
            for number, (who, topic) in enumerate(stories)
            if topic == about and (who == story_of[asker] or kind == "continuations")
        }
        for _, (asker, about) in chosen
    ]
    return SearchSet(tuple(texts), tuple(text for text, _ in chosen), tuple(relevant))


def _sentences(
    openings: Sequence[str], people: Sequence[str], phrases: Sequence[Sequence[str]]
) -> list[tuple[str, Story]]:
    return [
        (f"{opening}{who} {phrases[topic][way]} .", (who, topic))
        for opening in openings
        for who in people
        for topic in range(len(phrases))
        for way in range(len(phrases[topic]))
    ]


def _drawn(
    sentences: Sequence[tuple[str, Story]], per_story: int, generator: np.random.Generator
) -> tuple[list[str], list[Story]]:
    chosen: list[tuple[str, Story]] = []
    for story in dict.fromkeys(story for _, story in sentences):
        own = [sentence for sentence in sentences if sentence[1] == story]
        if per_story > len(own):
            raise DataError(f"per_story={per_story}: there are only {len(own)} sentences of each story, give fewer")
        chosen += [own[index] for index in generator.permutation(len(own))[:per_story]]
    mixed = [chosen[index] for index in generator.permutation(len(chosen))]
    return [text for text, _ in mixed], [story for _, story in mixed]
