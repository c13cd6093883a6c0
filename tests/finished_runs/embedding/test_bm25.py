"""BM25 against its formula, written out text by text, and against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtohead.finished_runs.embedding.retrievers import Bm25, words_of

TEXTS = ["The cat sat", "the cat sat on the cat", "a dog", "", "Füchse jagen den Hund; den HUND"]


def by_the_formula(texts: list[str], query: str, k1: float, b: float) -> list[float]:
    split = ["".join(sign if sign.isalnum() else " " for sign in text.lower()).split() for text in texts]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for own in split:
        score = 0.0
        for word in "".join(sign if sign.isalnum() else " " for sign in query.lower()).split():
            holding = sum(word in other for other in split)
            idf = math.log(1 + (len(split) - holding + 0.5) / (holding + 0.5))
            count = own.count(word)
            score += idf * count * (k1 + 1) / (count + k1 * (1 - b + b * len(own) / mean))
        scores.append(score)
    return scores


@pytest.mark.parametrize("query", ["cat", "the cat", "hund", "cat cat dog", "unheard of", "den Füchse, the sat!"])
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_scores_are_those_of_the_formula(query: str, k1: float, b: float) -> None:
    assert Bm25(TEXTS, k1=k1, b=b).scores(query) == pytest.approx(by_the_formula(TEXTS, query, k1, b), rel=1e-6)


def test_scores_are_those_worked_out_by_hand() -> None:
    """Two texts of one and three words, mean 2: "dog" is in one of two, so that idf = log 2, and of a text as long as
    half the mean the norm is 1.2 * (0.25 + 0.75 / 2) = 0.75."""
    scores = Bm25(["dog", "a big cat"]).scores("dog")
    assert scores == pytest.approx([math.log(2) * 2.2 / 1.75, 0.0], rel=1e-6)


def test_what_shares_no_word_is_not_found_and_ties_keep_the_order_of_the_texts() -> None:
    result = Bm25(["x y", "z", "y x", "x y"]).rank("y", 10)
    assert result.documents.tolist() == [0, 2, 3]
    assert len(Bm25(["x"]).rank("nothing", 3)) == 0


def test_random_texts_rank_as_by_the_formula() -> None:
    draw = np.random.default_rng(0)
    words = [f"w{number}" for number in range(30)]
    texts = [" ".join(draw.choice(words, draw.integers(1, 20))) for _ in range(80)]
    index = Bm25(texts)
    for _ in range(20):
        query = " ".join(draw.choice(words, 3))
        expected = np.array(by_the_formula(texts, query, 1.2, 0.75))
        result = index.rank(query, 7)
        assert expected[result.documents] == pytest.approx(np.sort(expected)[::-1][:7], rel=1e-6)


def test_bytes_grow_with_words_and_texts() -> None:
    assert 0 < Bm25(["a b"]).num_bytes < Bm25(["a b", "b c d"]).num_bytes


def test_words_are_letters_and_digits_of_any_script() -> None:
    assert words_of("Don't — 42 Füße, мир!") == ["don", "t", "42", "füße", "мир"]
