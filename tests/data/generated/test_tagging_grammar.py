"""Tags by reading the sentences again, and how little the words tell by themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, SplitName
from headtohead.data.generated.tagging_grammar import ENDINGS, NAMES, PATTERNS, TaggingGrammar
from headtohead.data.row_formats.tagged import Tagged
from headtohead.data.tokenizers import TokenizerName


def tags_of(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return every way to read a sentence as one of the patterns: a slow matcher, word by word."""

    def read(rest: tuple[str, ...], pattern: tuple[str, ...]) -> list[tuple[str, ...]]:
        if not pattern:
            return [()] if not rest else []
        if not rest:
            return []
        if pattern[0] not in ("PER", "LOC", "ORG"):
            return [("O", *more) for more in read(rest[1:], pattern[1:])] if rest[0] == pattern[0] else []
        ways = []
        for length in (1, 2):
            if len(rest) >= length and all(word in NAMES for word in rest[:length]):
                tags = (f"B-{pattern[0]}", f"I-{pattern[0]}")[:length]
                ways += [(*tags, *more) for more in read(rest[length:], pattern[1:])]
        return ways

    return [way for pattern in PATTERNS for ending in ENDINGS for way in read(words, tuple((pattern + ending).split()))]


@pytest.fixture(scope="module")
def samples() -> dict[SplitName, list[Tagged]]:
    return dict(from_fields(TaggingGrammar, num_train=4_000, num_validation=300, num_test=600).samples())


def test_sentences_have_one_reading_and_it_is_theirs(samples: dict[SplitName, list[Tagged]]) -> None:
    for words, tags in samples["validation"]:
        assert set(tags_of(tuple(words))) == {tuple(tags)}


def test_every_inside_tag_follows_its_entity(samples: dict[SplitName, list[Tagged]]) -> None:
    for _, tags in samples["train"]:
        for before, tag in pairwise(["O", *map(str, tags)]):
            assert not tag.startswith("I-") or before[2:] == tag[2:]


def test_no_name_tells_its_kind(samples: dict[SplitName, list[Tagged]]) -> None:
    """The baseline is the best guess for each name, chosen on the very sentences it is measured on."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for words, tags in samples["train"]:
        for word, tag in zip(words, tags, strict=True):
            if tag != "O":
                kinds[word][str(tag)[2:]] += 1
    assert set(kinds) == set(NAMES) and all(len(counts) == 3 for counts in kinds.values())
    right = sum(max(counts.values()) for counts in kinds.values())
    assert right / sum(sum(counts.values()) for counts in kinds.values()) < 0.45


def test_common_words_are_names_too(samples: dict[SplitName, list[Tagged]]) -> None:
    tags: dict[str, set[str]] = defaultdict(set)
    for words, marked in samples["train"]:
        for word, tag in zip(words, marked, strict=True):
            tags[word].add(str(tag))
    assert all({"O", "B-PER", "B-LOC", "B-ORG"} <= tags[word] for word in NAMES[-6:])


def test_a_tagger_that_sees_two_neighbours_on_each_side_errs_often(samples: dict[SplitName, list[Tagged]]) -> None:
    """A model must therefore read further."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    def windows(sentences: list[Tagged]) -> tuple[list[dict[str, str]], list[str]]:
        features, kinds = [], []
        for words, tags in sentences:
            padded = ["", "", *words, "", ""]
            for position, tag in enumerate(tags):
                if tag != "O":
                    features.append({str(step): padded[position + step] for step in range(5)})
                    kinds.append(str(tag)[2:])
        return features, kinds

    (train, labels), (test, truth) = windows(samples["train"][:1500]), windows(samples["test"])
    encoder = DictVectorizer()
    model = LogisticRegression(max_iter=100, tol=1e-2).fit(encoder.fit_transform(train), labels)
    assert np.mean(model.predict(encoder.transform(test)) == truth) < 0.9


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
@pytest.mark.parametrize("name", SPLIT_NAMES)
def test_rows_say_what_the_samples_say(tokenizer: TokenizerName, name: SplitName) -> None:
    source = from_fields(TaggingGrammar, num_train=200, num_validation=20, num_test=20, tokenizer=tokenizer)
    described = source.describe(source.split(name).batch(np.arange(20)))
    for message, (words, tags) in zip(described, source.samples()[name], strict=False):
        assert message["text"] == " ".join(words)
        marked = [word if tag == "O" else f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)]
        assert message["tags"] == " ".join(marked)
