"""Okapi BM25 (Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019): words that are rare, and often here.

score(q, d) = sum over words w of q of idf(w) tf (k1 + 1) / (tf + k1 (1 - b + b length(d) / mean length)), with
idf(w) = log(1 + (N - n + 1/2) / (n + 1/2)), which is never negative, as in Lucene (Kamphuis et al. 2020,
https://doi.org/10.1007/978-3-030-45442-5_4). What a word adds to each text is known before any query (Lù 2024,
https://arxiv.org/abs/2407.03618).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from headtohead.finished_runs.embedding.rankings import DocumentRanking, best

K1, B = 1.2, 0.75
"""Lucene's."""
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Letters and digits of any script, in lower case; nothing is stemmed, and no word is left out."""
    return _WORD.findall(text.lower())


class Bm25:
    """Words by number, and for each the texts that it is in and what it adds to their scores."""

    def __init__(self, texts: Sequence[str], *, k1: float = K1, b: float = B) -> None:
        self.num_texts = len(texts)
        self.numbers: dict[str, int] = {}
        words, holders, counts, lengths = [], [], [], np.zeros(len(texts))
        for index, text in enumerate(texts):
            occurrences = Counter(words_of(text))
            lengths[index] = occurrences.total()
            for word, count in occurrences.items():
                words.append(self.numbers.setdefault(word, len(self.numbers)))
                holders.append(index)
                counts.append(count)
        numbered, tf = np.array(words, dtype=np.int64), np.array(counts, dtype=np.float64)
        order = np.argsort(numbered, kind="stable")
        holding = np.bincount(numbered, minlength=len(self.numbers))
        idf = np.log1p((self.num_texts - holding + 0.5) / (holding + 0.5))
        self.texts = np.array(holders, dtype=np.int32)[order]
        length = lengths / max(lengths.mean(), 1e-9)
        norm = k1 * (1 - b + b * length[self.texts])
        added = idf[numbered[order]] * tf[order] * (k1 + 1) / (tf[order] + norm)
        self.added = added.astype(np.float32)
        self.starts = np.concatenate([[0], np.cumsum(holding)])

    @property
    def num_bytes(self) -> int:
        """Lists and words."""
        spelt = sum(len(word.encode()) for word in self.numbers)
        count: int = self.texts.nbytes + self.added.nbytes + self.starts.nbytes + spelt
        return count

    def scores(self, query: str) -> np.ndarray:
        """Return the score of every text; a word that the query has twice counts twice."""
        scores = np.zeros(self.num_texts)
        for word, count in Counter(words_of(query)).items():
            number = self.numbers.get(word)
            if number is not None:
                span = slice(self.starts[number], self.starts[number + 1])
                scores[self.texts[span]] += count * self.added[span].astype(np.float64)
        return scores

    def rank(self, query: str, depth: int) -> DocumentRanking:
        """Texts that share no word with the query are not found."""
        scores = self.scores(query)
        holding = np.flatnonzero(scores > 0)
        return best(scores[holding], depth, holding)
