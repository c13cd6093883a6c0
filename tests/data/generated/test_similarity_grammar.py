"""Pairs and their grades: as a reader who knows the words would give them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from data.small_texts import GivenSamples
from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.generated.pair_grammar import PARTS, SimilarityGrammar
from headtohead.data.row_formats.labelled_text import ScoredPair, ScoreFormat

MEANING = {
    word: (part, position) for part, all_ in PARTS.items() for position, ways in enumerate(all_) for word in ways
}


@pytest.fixture(scope="module")
def samples() -> list[ScoredPair]:
    source = from_fields(SimilarityGrammar, num_train=3000, num_validation=50, num_test=50)
    return [pair for name in SPLIT_NAMES for pair in source.samples()[name]]


def meanings(sentence: str) -> set[tuple[str, int]]:
    return {MEANING[word] for word in sentence.split() if word in MEANING}


def test_grades_are_the_number_of_parts_that_say_the_same(samples: list[ScoredPair]) -> None:
    for first, second, grade in samples:
        assert len(meanings(first)) == len(meanings(second)) == len(PARTS)
        assert len(meanings(first) & meanings(second)) == grade


def test_all_grades_are_as_common_and_no_pair_comes_twice(samples: list[ScoredPair]) -> None:
    counts = Counter(grade for *_, grade in samples)
    assert sorted(counts) == [0, 1, 2, 3, 4, 5] and min(counts.values()) > 0.8 * len(samples) / 6
    assert len(set(samples)) == len(samples) and len(MEANING) == 2 * len({*MEANING.values()})


@pytest.mark.slow
def test_common_words_tell_a_part_of_the_grade_and_one_sentence_nothing(samples: list[ScoredPair]) -> None:
    grades = [grade for *_, grade in samples]
    common = [len({*first.split()} & {*second.split()}) for first, second, _ in samples]
    assert 0.5 < stats.spearmanr(common, grades).statistic < 0.93
    for word in MEANING:
        there = [word in first.split() for first, *_ in samples]
        assert abs(stats.spearmanr(there, grades).statistic) < 0.08, word


PAIRS = [("it rained", "it was wet", 4.25), ("no", "it was a very wet day", 0.0), ("the sun shone", "dry", -1.5)]


def test_scores_stand_beside_their_texts_to_the_last_digit() -> None:
    source = GivenSamples(ScoreFormat(), PAIRS)
    batch = source.split("train").batch(np.arange(3))
    assert batch.targets is not None and batch.targets.tolist() == [4.25, 0.0, -1.5]
    assert batch.token_types is not None and batch.token_types[0].sum() == len("it was wet") + 1
    assert source.describe(batch)[1] == {"row": 1, "text": "no", "second text": "it was a very wet day", "score": 0.0}
    spec = source.spec()
    assert spec.score_mean == pytest.approx(np.mean([4.25, 0, -1.5])) and spec.num_texts == 2
    assert spec.score_deviation == pytest.approx(np.std([4.25, 0, -1.5]))


def test_single_texts_have_scores_too_and_are_cut_to_the_length() -> None:
    source = GivenSamples(ScoreFormat(8), [("a good film", 7.0), ("bad", 2.0)])
    batch = source.split("train").batch(np.arange(2))
    assert batch.token_types is None and batch.tokens is not None and batch.tokens.shape == (2, 8)


def test_empty_text_is_named_with_its_row() -> None:
    with pytest.raises(DataError, match=r"row 1 of the train split .*: its text is empty"):
        GivenSamples(ScoreFormat(), [("a", "b", 1.0), ("a", " ", 2.0)]).prepare()
