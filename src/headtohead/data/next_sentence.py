"""Pairs for next-sentence prediction from any local text: half of them follow each other, half do not (Devlin et al.
2019, https://arxiv.org/abs/1810.04805)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.documents import Documents, Unit
from headtohead.data.generated.stories import NEXT, RANDOM
from headtohead.data.labelled import LabelledForm, LabelledPair
from headtohead.data.texts import TextSource, check_max_length
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Count, Length, Probability, Seed, Vocabulary

Ends = Literal["punctuation", "line", "paragraph"]
_BORDERS: Mapping[str, re.Pattern[str]] = {
    "punctuation": re.compile(r"(?<=[.!?])\s+|\n\s*\n"),
    "line": re.compile(r"\n"),
    "paragraph": re.compile(r"\n\s*\n"),
}
_FEWEST_SIDES = 3
"""Two that follow each other, and one from elsewhere."""


class NextSentence(TextSource):
    """Each place of a text where one sentence ends and the next begins is a pair. In half of them the second is
    replaced by one of another document, or, where there is one document only, by one from elsewhere in it."""

    name: ClassVar[str] = "next_sentence"
    kind = "labelled_text"

    def __init__(
        self,
        *,
        path: str | None = None,
        pattern: str = "**/*.txt",
        encoding: str = "utf-8",
        documents: Unit = "file",
        sentences: Ends = "punctuation",
        sentences_per_side: Count = 1,
        validation_share: Probability = 0.05,
        test_share: Probability = 0.05,
        max_length: Length | None = 128,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(
            batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size, bucket_by_length=bucket_by_length
        )
        self.drop_shared = drop_shared
        if sentences not in get_args(Ends):
            raise DataError(f"data.sentences={sentences} is unknown: choose one of {', '.join(get_args(Ends))}.")
        if sentences_per_side < 1:
            raise DataError(f"data.sentences_per_side={sentences_per_side} must be at least 1.")
        self.documents = Documents(
            path,
            pattern=pattern,
            encoding=encoding,
            unit=documents,
            validation_share=validation_share,
            test_share=test_share,
            seed=seed,
        )
        self.ends, self.per_side, self.seed = sentences, sentences_per_side, seed
        self.max_length = check_max_length(max_length)

    @property
    def form(self) -> LabelledForm:
        return LabelledForm((NEXT, RANDOM), self.max_length)

    def sample_parameters(self) -> Mapping[str, Any]:
        return {**self.documents.parameters(), "sentences": self.ends, "sentences_per_side": self.per_side}

    def samples(self) -> Mapping[SplitName, list[LabelledPair]]:
        documents = self.documents.by_split()
        return {name: self._pairs(name, [self._sides(text) for text in documents[name]]) for name in SPLIT_NAMES}

    def _sides(self, document: str) -> list[str]:
        """The sentences of a document, so many together as make a side."""
        parts = (" ".join(part.split()) for part in _BORDERS[self.ends].split(document))
        sentences = [part for part in parts if part]
        starts = range(0, len(sentences), self.per_side)
        return [" ".join(sentences[start : start + self.per_side]) for start in starts]

    def _pairs(self, name: SplitName, documents: Sequence[Sequence[str]]) -> list[LabelledPair]:
        sides = [side for document in documents for side in document]
        owner = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
        firsts = np.flatnonzero(owner[:-1] == owner[1:])
        if len(sides) < _FEWEST_SIDES or not len(firsts):
            raise DataError(
                f"data.path={self.documents.path} has no two sentences in a row for the {name} split and one from "
                f"elsewhere: give more text, larger shares, or other data.documents and data.sentences."
            )
        generator = np.random.default_rng([self.seed, SPLIT_NAMES.index(name)])
        follows = generator.permutation(len(firsts)) < (len(firsts) + 1) // 2
        seconds = np.where(follows, firsts + 1, _elsewhere(firsts, owner, generator))
        return [
            (sides[first], sides[second], NEXT if true else RANDOM)
            for first, second, true in zip(firsts.tolist(), seconds.tolist(), follows.tolist(), strict=True)
        ]


def _elsewhere(firsts: np.ndarray, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """For each first side, one of another document; of a document alone, neither itself nor the next."""
    if owner[-1] == 0:
        drawn = generator.integers(len(owner) - 2, size=len(firsts))
        return drawn + 2 * (drawn >= firsts)
    begins, ends = np.searchsorted(owner, owner[firsts]), np.searchsorted(owner, owner[firsts], side="right")
    drawn = (generator.random(len(firsts)) * (len(owner) - (ends - begins))).astype(np.int64)
    array: np.ndarray = np.where(drawn < begins, drawn, drawn + ends - begins)
    return array
