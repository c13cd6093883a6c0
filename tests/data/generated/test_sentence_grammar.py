"""Labels by reading the sentences again, and how little their words tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.row_formats.labelled_text import Labelled, LabelledSource
from headtohead.data.row_formats.text_source import BucketedRows

GOOD = {"gripping", "strong", "superb", "elegant", "moving", "fine", "lively", "clear", "fresh", "deep"}
BAD = {"dull", "weak", "awful", "clumsy", "boring", "poor", "lifeless", "confusing", "bland", "shallow"}
TURNING = ("not", "never", "hardly", "far from", "anything but")


def verdict_of(clause: str) -> int:
    (message,) = [word for word in clause.split() if word in GOOD | BAD]
    turned = any(f" {turning} " in clause for turning in TURNING)
    return int((message in GOOD) != turned)


def label_of(sentence: str) -> int:
    """Derive the label from the deciding clause, which the conjunction determines."""
    assert sentence.endswith(" .")
    sentence = sentence.removesuffix(" .")
    if sentence.startswith("although "):
        return verdict_of(sentence.split(" , ")[1])
    if " , but " in sentence:
        return verdict_of(sentence.split(" , but ")[1])
    return verdict_of(sentence.split(" , ")[0])


def samples(source: SentenceGrammar, name: SplitName) -> list[Labelled]:
    split = source.split(name)
    batch = split.batch(np.arange(len(split)))
    assert batch.targets is not None
    texts = [sample["text"] for sample in source.describe(batch)]
    return list(zip(texts, batch.targets.tolist(), strict=True))


@pytest.mark.parametrize("name", SPLIT_NAMES)
def test_labels_are_those_of_a_reader(name: SplitName) -> None:
    source = from_fields(SentenceGrammar, num_train=3_000, num_validation=300, num_test=300)
    assert all(label == label_of(text) for text, label in samples(source, name))


@pytest.mark.slow  # it counts over all rows
def test_no_word_tells_the_label() -> None:
    """The baseline is the best rule on one word, chosen on the very sentences it is measured on."""
    train = samples(from_fields(SentenceGrammar), "train")
    counts = [Counter[str](), Counter[str]()]
    for text, label in train:
        counts[label].update(set(text.split()))
    totals = [sum(label == other for _, label in train) for other in (0, 1)]
    words = set(counts[0]) | set(counts[1])
    best = max(abs(counts[1][word] / totals[1] - counts[0][word] / totals[0]) / 2 for word in words)
    assert 0.5 + best < 0.53


@pytest.mark.slow  # it counts over all rows
def test_counting_words_tells_little_about_sentences_of_two_clauses() -> None:
    """The baseline is a linear classifier on all words at once."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    source = from_fields(SentenceGrammar)
    split = {
        name: [(text, label) for text, label in samples(source, name) if " , " in text] for name in ("train", "test")
    }  # type: ignore[arg-type]
    count = CountVectorizer(token_pattern=r"\S+")
    model = LogisticRegression(max_iter=500).fit(
        count.fit_transform([text for text, _ in split["train"]]), [label for _, label in split["train"]]
    )
    accuracy = model.score(count.transform([text for text, _ in split["test"]]), [label for _, label in split["test"]])
    assert accuracy < 0.66


@pytest.mark.slow  # it counts over all rows
def test_both_labels_are_as_common() -> None:
    labels = [label for _, label in samples(from_fields(SentenceGrammar), "train")]
    assert 0.48 < np.mean(labels) < 0.52


def test_sentences_are_framed_so_that_first_and_last_can_be_pooled() -> None:
    batch = from_fields(SentenceGrammar, num_train=100).split("train").batch(np.arange(50))
    assert batch.tokens is not None and batch.valid is not None
    last = batch.valid.sum(1) - 1
    assert set(batch.tokens[:, 0].tolist()) == {1}
    assert set(batch.tokens[range(50), last].tolist()) == {2}


class Mislabelled(LabelledSource):
    name: ClassVar[str] = "mislabelled"
    class_names: ClassVar[tuple[str, ...]] = ("no", "yes")

    def __init__(self, label: int) -> None:
        super().__init__(BucketedRows(batch_size=2, tokenizer="char"))
        self.label = label

    def samples(self) -> Mapping[SplitName, Sequence[Labelled]]:
        return {"train": [("a", 0), ("b", 1)], "validation": [("a", 0), ("b", self.label)], "test": [("c", 1)]}

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"label": self.label}


@pytest.mark.parametrize("label", [2, -1, 77])
def test_label_out_of_range_is_refused_with_its_row(label: int) -> None:
    message = f"row 1 of the validation split of data=mislabelled has label {label}, .* numbered from 0 to 1"
    with pytest.raises(DataError, match=message):
        Mislabelled(label).prepare()
    assert Mislabelled(1).spec().num_classes == 2
