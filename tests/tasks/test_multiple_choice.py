"""Prompts as one would write them by hand, and classes chosen as brute force over every choice chooses them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import log
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_score, recall_score

from from_fields import from_fields
from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import DataSource, DataSpec
from headtohead.data.generated.pair_grammar import PairGrammar
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.splits.sample_splits import fewer_rows
from headtohead.tasks.multiple_choice import MultipleChoice
from headtohead.tasks.prompt_templates import drawn_examples, texts_of
from headtohead.tasks.task import spec_as_read
from small_models import redraw, small_model

SIZES: dict[str, Any] = {"num_train": 60, "num_validation": 8, "num_test": 12}
WORDS = ["bad", "really good"]
TEMPLATE = "Review: {text}\nIt was {label}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.getbasetemp() / "multiple_choice"))


def source(kind: str = "sentences", tokenizer: Any = "bpe") -> DataSource:
    made: DataSource = from_fields(PairGrammar if kind == "pairs" else SentenceGrammar, **SIZES, tokenizer=tokenizer)
    return made


@cache
def language_model(vocab_size: int) -> Architecture:
    model = redraw(small_model("decoder_only", vocab_size=vocab_size, max_length=None).double(), std=0.8).eval()
    assert isinstance(model, Architecture)
    return model


def bound(data: DataSource, **options: Any) -> MultipleChoice:
    task = MultipleChoice(**options).bind(data.spec())
    assert isinstance(task, MultipleChoice)
    return task


def log_likelihood(model: Architecture, spec: DataSpec, prompt: str, word: str) -> float:
    """Return the log-likelihood of the word's tokens after the prompt's, from the logits of the whole row."""
    assert spec.encode is not None
    read, predicted = [spec.bos_id, *spec.encode(prompt)], list(spec.encode(word))
    with torch.no_grad():
        shares = model(tokens=torch.tensor([read + predicted]))[0].log_softmax(-1)
    return sum(float(shares[len(read) - 1 + index, token]) for index, token in enumerate(predicted))


def results_of(task: MultipleChoice, data: DataSource, size: int = 10) -> dict[str, float]:
    model = language_model(data.spec().vocab_size)
    split = data.split("test")
    for rows in np.array_split(np.arange(len(split)), -(-len(split) // size)):
        task.measure("test", model, task.view(split.batch(rows), seed=0, epoch=0))
    return task.results("test")


def texts_and_labels(data: DataSource) -> tuple[list[tuple[str, ...]], list[int]]:
    split = data.split("test")
    batch = split.batch(np.arange(len(split)))
    assert batch.targets is not None
    return texts_of(batch, data.spec()), batch.targets.tolist()


def a_pair_that_is_not_easy(data: DataSource, model: Architecture) -> list[str]:
    """Return words of which now one, now the other is likelier: else a choice that never looks at the text would
    pass."""
    texts = texts_and_labels(data)[0]
    words = ["dull", "nice", "poor", "fine", "weak", "warm", "slow", "calm", "cold", "kind"]
    likely = np.array(
        [[log_likelihood(model, data.spec(), f"Review: {text}", f" {word}") for word in words] for (text,) in texts]
    )
    for first, second in combinations(range(len(words)), 2):
        if 0 < (likely[:, first] > likely[:, second]).sum() < len(texts):
            return [words[first], words[second]]
    raise AssertionError("the model ranks all words alike whatever it reads")


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", ["byte", "bpe"])
@pytest.mark.parametrize("shots", [0, 3])
def test_classes_are_those_that_brute_force_finds(tokenizer: str, shots: int) -> None:
    data = source(tokenizer=tokenizer)
    spec, model = data.spec(), language_model(data.spec().vocab_size)
    words = a_pair_that_is_not_easy(data, model)
    task = bound(data, shots=shots, template="Review: {text} {label}", label_words=words, example_seed=5)
    examples = "".join(f"Review: {one.texts[0]} {words[one.label]}\n\n" for one in drawn_examples(spec, shots, 5).shown)
    texts, labels = texts_and_labels(data)
    scores = [
        [log_likelihood(model, spec, f"{examples}Review: {text}", f" {word}") for word in words] for (text,) in texts
    ]
    predicted = np.argmax(scores, 1)
    results = results_of(task, data)
    assert results["accuracy"] == pytest.approx(np.mean(predicted == labels))
    macro = {"average": "macro", "zero_division": 0}
    assert results["precision_macro"] == pytest.approx(precision_score(labels, predicted, **macro))
    assert results["recall_macro"] == pytest.approx(recall_score(labels, predicted, **macro))
    assert results["f1_macro"] == pytest.approx(f1_score(labels, predicted, **macro))
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert results["loss"] == pytest.approx(-np.log(shares[np.arange(len(labels)), labels]).mean())


@pytest.mark.parametrize(("normalisation", "lengths"), [("bytes", [4, 12]), ("none", [1, 1])])
@pytest.mark.parametrize("calibrate", [True, False])
def test_scores_are_divided_by_length_and_calibrated_by_what_has_no_content(
    normalisation: Any, lengths: list[int], calibrate: bool
) -> None:
    data = source(tokenizer="byte")
    spec, model = data.spec(), language_model(data.spec().vocab_size)
    task = bound(data, template=TEMPLATE, label_words=WORDS, normalisation=normalisation, calibrate=calibrate)

    def shares(text: str) -> np.ndarray:
        result = [log_likelihood(model, spec, f"Review: {text}\nIt was".rstrip(), f" {word}") for word in WORDS]
        weights = np.exp(np.array(result) / lengths)
        return weights / weights.sum()

    usual = np.mean([shares(text) for text in ("N/A", "", "[MASK]")], 0) if calibrate else np.ones(2)
    texts, labels = texts_and_labels(data)
    expected = [shares(text) / usual / (shares(text) / usual).sum() for (text,) in texts]
    results = results_of(task, data)
    assert results["loss"] == pytest.approx(
        np.mean([-log(row[label]) for row, label in zip(expected, labels, strict=True)])
    )
    assert results["accuracy"] == pytest.approx(np.mean(np.argmax(expected, 1) == labels))


def test_both_texts_of_a_pair_stand_in_the_prompt() -> None:
    data = source("pairs")
    spec = data.spec()
    assert spec.decode is not None
    task = bound(data, template="{text} Question: {second_text} Answer: {label}")
    view = task.view(data.split("test").batch(np.arange(3)), seed=0, epoch=0)
    (first, second), *_ = texts_and_labels(data)[0]
    assert view.tokens is not None and view.valid is not None and view.targets is not None
    prompt = spec.decode(view.tokens[0][view.valid[0]].tolist())
    assert prompt.startswith(f"{first} Question: {second} Answer:") and first != second
    word = spec.decode(view.targets[0][view.targets[0] != IGNORED].tolist())
    assert word.strip() == spec.class_names[texts_and_labels(data)[1][0]]


def test_each_row_goes_on_with_the_word_of_its_class_and_nothing_else_is_learned() -> None:
    data = source()
    task = bound(data, shots=2)
    view = task.view(data.split("train").batch(np.arange(5)), seed=0, epoch=0)
    labels = data.split("train").batch(np.arange(5)).targets
    assert view.labels is not None and labels is not None and view.labels.tolist() == labels.tolist()
    model = language_model(data.spec().vocab_size)
    loss = task.loss(model, view)
    by_choice = task.choice_scores(model, view).gather(1, view.labels[:, None]).sum()
    assert float(loss.total.detach()) == pytest.approx(-float(by_choice), rel=1e-6)
    assert view.targets is not None and int(loss.count) == int((view.targets != IGNORED).sum())


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_examples_are_balanced_seeded_and_of_the_train_split(count: int) -> None:
    data = source()
    drawn = drawn_examples(data.spec(), count, seed=3)
    counts = Counter(example.label for example in drawn.shown)
    assert len(drawn.shown) == count and max(counts.values()) - min(counts.get(label, 0) for label in (0, 1)) <= 1
    assert drawn == drawn_examples(data.spec(), count, seed=3)
    train = data.split("train")
    batch = train.batch(np.arange(len(train)))
    assert batch.targets is not None
    known = dict(enumerate(zip(texts_of(batch, data.spec()), batch.targets.tolist(), strict=True)))
    assert all(known[example.row] == (example.texts, example.label) for example in drawn.shown)
    assert count < 5 or any(drawn != drawn_examples(data.spec(), count, seed=other) for other in (4, 5))


def test_no_prompt_is_longer_than_the_declared_length() -> None:
    data = source()
    task = bound(data, shots=3)
    message = spec_as_read(task, data).max_length
    for name in ("train", "validation", "test"):
        split = data.split(name)
        tokens = task.view(split.batch(np.arange(len(split))), seed=0, epoch=0).tokens
        assert tokens is not None and tokens.shape[1] <= message < 2 * tokens.shape[1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"template": "{text} was"}, r"must hold \{text\}, and end with its only \{label\}"),
        ({"template": "{text} {second_text} {label}"}, r"must hold \{text\}"),
        ({"label_words": ["bad"]}, "names 1 words, and the data has 2 classes"),
        ({"label_words": ["good", "good"]}, "no two of them alike"),
        ({"shots": 61}, "more of .* than the 60 rows of the train split"),
        ({"shots": -1}, "must be 0 or more"),
        ({"normalisation": "words"}, "choose one of none, tokens, bytes"),
    ],
)
def test_what_makes_no_prompt_is_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        bound(source(), **options)


@pytest.mark.parametrize("reserves", [True, False])
def test_no_row_is_an_example_in_the_prompt_that_it_is_learned_from(reserves: bool) -> None:
    data = source()
    spec = data.spec()
    assert spec.decode is not None
    few = spec if reserves else replace(spec, open_train=lambda: fewer_rows(data.split("train"), 6, 1))
    rows = np.arange(60) if reserves else fewer_rows(data.split("train"), 6, 1).rows
    labels = data.split("train").batch(rows).targets
    assert labels is not None
    shots = 5 if reserves else 2 * min(Counter(labels.tolist()).values())
    task = MultipleChoice(shots=shots, separator=" # ", template="{text} : {label}").bind(few)
    batch = data.split("train").batch(rows)
    view = task.training_view(batch, seed=0, epoch=0)
    own = {one.row for one in drawn_examples(few, shots, 0).shown}
    assert own and view.tokens is not None and view.valid is not None
    texts = texts_of(batch, spec)
    for index, (row, (text,)) in enumerate(zip(batch.rows.tolist(), texts, strict=True)):
        *shown, options = spec.decode(view.tokens[index][view.valid[index]].tolist()).split(" # ")
        assert options.startswith(f"{text} :")
        sentences = [example.rpartition(" : ")[0].strip() for example in shown]
        assert row not in own or text not in sentences or texts.count((text,)) > 1
        assert len(shown) >= shots - 1 and (len(shown) == shots or (row in own and not reserves))
        if reserves:
            counts = Counter(example.rpartition(" : ")[2].strip() for example in shown)
            assert max(counts.values()) - min(counts.values()) <= 1, "the stand-in is of the same class"
    plain = task.view(batch, seed=0, epoch=0).tokens
    assert isinstance(task, MultipleChoice) and plain is not None
    beginnings = plain[:, : len(task.shared)].tolist()
    assert beginnings == [task.shared] * len(rows), "rows of other splits read the examples as they are"


def test_rows_of_the_train_split_are_measured_after_the_examples_that_they_are_shown() -> None:
    data = source(tokenizer="byte")
    spec, model = data.spec(), language_model(data.spec().vocab_size)
    task = bound(data, shots=3, template="Review: {text} {label}", label_words=["bad", "good"])
    drawn = drawn_examples(spec, 3, 0)
    rows = np.array([drawn.shown[0].row, drawn.shown[2].row, drawn.reserves[0].row])
    scores = task.choice_scores(model, task.training_view(data.split("train").batch(rows), seed=0, epoch=0))
    for index, (text,) in enumerate(texts_of(data.split("train").batch(rows), spec)):
        shown = [one for one in drawn.shown if one.row != rows[index]]
        stand_ins = [one for one in drawn.reserves if index < 2 and one.label == drawn.shown[[0, 2][index]].label]
        examples = [*shown]
        if index < 2:
            examples.insert([0, 2][index], stand_ins[0])
        before = "".join(f"Review: {one.texts[0]} {['bad', 'good'][one.label]}\n\n" for one in examples)
        exact = [log_likelihood(model, spec, f"{before}Review: {text}", f" {word}") for word in ("bad", "good")]
        assert scores[index].tolist() == pytest.approx(exact)
