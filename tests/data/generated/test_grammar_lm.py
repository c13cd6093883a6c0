"""Sentences parsed again, by another algorithm than the one that wrote them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import islice

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.generated.english_grammar import Grammar, GrammarCorpus, Rules, english_rules


def derives(rules: Rules, sentence: list[str]) -> bool:
    """Return whether the first symbol derives the sentence: every span by every rule, from the top."""

    @cache
    def symbol(name: str, start: int, stop: int) -> bool:
        if name not in rules:
            return stop == start + 1 and sentence[start] == name
        return any(body(tuple(text.split()), start, stop) for _, text in rules[name])

    @cache
    def body(parts: tuple[str, ...], start: int, stop: int) -> bool:
        if len(parts) == 1:
            return symbol(parts[0], start, stop)
        cuts = range(start + 1, stop - len(parts) + 2)
        return any(symbol(parts[0], start, cut) and body(parts[1:], cut, stop) for cut in cuts)

    return symbol(next(iter(rules)), 0, len(sentence))


def written(seed: int, num_sentences: int) -> list[list[str]]:
    grammar = Grammar.of(english_rules(seed))
    sentences = grammar.sentences(num_sentences, np.random.default_rng(seed))
    return [[grammar.words[word] for word in sentences[row]] for row in range(num_sentences)]


@pytest.mark.slow
def test_every_sentence_can_be_parsed() -> None:
    rules = english_rules(0)
    short = [sentence for sentence in written(0, 150) if len(sentence) <= 25]
    assert len(short) > 100 and all(derives(rules, sentence) for sentence in short)


def test_parser_refuses_what_does_not_agree() -> None:
    rules = english_rules(0)
    assert derives(rules, ["the", "dogs", "beyond", "the", "river", "see", "every", "cat", "."])
    assert not derives(rules, ["the", "dogs", "beyond", "the", "river", "sees", "every", "cat", "."])
    assert not derives(rules, ["the", "dog", "the", "river", "sees", "."])


def test_rules_are_used_as_often_as_their_weights_say() -> None:
    rules: Rules = {"A": [(3, "x B"), (1, "y")], "B": [(1, "x"), (1, "A z"), (2, "z z")]}
    sentences = Grammar.of(rules).sentences(60_000, np.random.default_rng(0))
    words = Grammar.of(rules).words
    counts = Counter(" ".join(words[word] for word in sentences[row]) for row in range(60_000))
    for text, share in {"y": 1 / 4, "x x": 3 / 16, "x z z": 3 / 8, "x y z": 3 / 64, "x x x z": 9 / 256}.items():
        assert counts[text] / 60_000 == pytest.approx(share, abs=0.01)


def test_no_symbol_is_left_as_a_word() -> None:
    for seed in range(3):
        assert all(word == word.lower() for word in Grammar.of(english_rules(seed)).words)


def test_word_frequencies_follow_from_the_seed() -> None:
    common = [
        Counter(word for sentence in written(seed, 2_000) for word in sentence if word.endswith("s")).most_common(5)
        for seed in range(3)
    ]
    assert len({tuple(word for word, _ in words) for words in common}) == 3


def test_documents_are_alike_in_no_two_positions() -> None:
    documents = from_fields(GrammarCorpus, num_train=3_000, num_validation=200, num_test=200).samples()
    together = [text for name in SPLIT_NAMES for text in documents[name]]
    assert len(set(together)) == len(together) == 3_400


def test_a_larger_train_split_leaves_validation_and_test_as_they_are() -> None:
    small, large = (
        from_fields(GrammarCorpus, num_train=size, num_validation=20, num_test=20).samples() for size in (50, 5_000)
    )
    assert small["validation"] == large["validation"] and small["test"] == large["test"]
    assert large["train"][:50] == small["train"]


def test_documents_have_one_to_max_sentences() -> None:
    documents = list(islice(from_fields(GrammarCorpus, max_sentences=3)._written(), 600))
    assert {text.count(".") for text in documents} == {1, 2, 3}


def test_text_is_spaced_like_english() -> None:
    text = next(from_fields(GrammarCorpus)._written())
    assert text == text.strip() and text.endswith(".") and " ." not in text and " ," not in text and "  " not in text


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"max_sentences": 0}, "data.max_sentences=0 must be at least 1"),
        ({"num_train": 0}, "data.num_train=0 leaves the train split empty"),
    ],
)
def test_impossible_corpus_is_refused(chosen: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_fields(GrammarCorpus, **chosen)  # type: ignore[arg-type]


def test_more_samples_than_there_are_is_refused() -> None:
    from headtohead.data.splits.sample_splits import SplitSizes, split_samples

    with pytest.raises(DataError, match=r"data=letters has only 3 different samples .* and 5 are requested"):
        split_samples("abcabcabc", SplitSizes(3, 1, 1).by_name(), source="letters")
    assert split_samples("aabcde", SplitSizes(2, 1, 2).by_name(), source="letters") == {
        "train": ["d", "e"],
        "validation": ["c"],
        "test": ["a", "b"],
    }
