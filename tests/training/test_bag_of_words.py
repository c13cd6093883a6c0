"""The bag of words against scikit-learn's own features and its own logistic regression on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss

import headtohead as h2h
from from_fields import from_fields
from headtohead.architectures.bag_of_words import BagOfWords
from headtohead.data.data_source import DataSource
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.splits.sample_splits import fewer_rows, sampled_rows
from headtohead.tasks.classification import Classification
from headtohead.training import run as run_module
from headtohead.training.loop.seeds import EVALUATION_SEED
from headtohead.training.sklearn_fit import fit_with_sklearn

STRENGTHS = [0.1, 10.0]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.getbasetemp() / "bag_of_words"))


def source() -> DataSource:
    return from_fields(SentenceGrammar, num_train=120, num_validation=40, num_test=40, vocab_size=300)


def token_lists(data: DataSource, name: Any) -> tuple[list[list[str]], np.ndarray]:
    split = data.split(name)
    batch = split.batch(np.arange(len(split)))
    assert batch.tokens is not None and batch.valid is not None and batch.targets is not None
    rows = [[str(int(token)) for token in row[real]] for row, real in zip(batch.tokens, batch.valid, strict=True)]
    return rows, batch.targets.numpy()


def grams_up_to(length: int) -> Any:
    return lambda tokens: [
        " ".join(tokens[position : position + size])
        for size in range(1, length + 1)
        for position in range(len(tokens) - size + 1)
    ]


@pytest.mark.parametrize("weighting", ["tfidf", "counts"])
@pytest.mark.parametrize("ngrams", [1, 3])
def test_features_and_choice_are_those_of_scikit_learn(weighting: Any, ngrams: int) -> None:
    data = source()
    (train, labels), (checked, truth) = token_lists(data, "train"), token_lists(data, "validation")
    make = TfidfVectorizer if weighting == "tfidf" else CountVectorizer
    vectorizer = make(analyzer=grams_up_to(ngrams), max_df=len(train) - 1)
    theirs, tested = vectorizer.fit_transform(train), vectorizer.transform(checked)
    losses = {}
    for strength in STRENGTHS:
        solver = LogisticRegression(C=strength, max_iter=1000).fit(theirs, labels)
        losses[strength] = log_loss(truth, solver.predict_proba(tested))

    model = BagOfWords(
        vocab_size=data.spec().vocab_size, num_classes=2, ngrams=ngrams, weighting=weighting, strengths=STRENGTHS
    )
    solved = fit_with_sklearn(model, data.split("train"), data.split("validation"), monitor="loss", direction="min")
    batch = data.split("validation").batch(np.arange(40))
    ours = model.features(**{name: batch.inputs()[name] for name in ("tokens", "valid")})[:, 0].numpy()
    for own, other in zip(ours, tested.toarray(), strict=True):
        assert np.sort(own[own > 0]) == pytest.approx(np.sort(other[other > 0]), rel=1e-5)
    assert solved.judged == pytest.approx(losses, rel=1e-3)
    assert solved.strength == min(losses, key=lambda strength: losses[strength])
    assert solved.tokens == sum(map(len, train)) and solved.samples == 120


def test_only_the_most_frequent_features_are_kept() -> None:
    data = source()
    model = BagOfWords(vocab_size=data.spec().vocab_size, num_classes=2, ngrams=1, max_features=5, strengths=[1.0])
    fit_with_sklearn(model, data.split("train"), data.split("validation"), monitor="accuracy", direction="max")
    train = token_lists(data, "train")[0]
    counts = {token: sum(token in row for row in train) for row in train for token in row}
    frequent = sorted(
        (token for token in counts if counts[token] < 120), key=lambda token: (-counts[token], int(token))
    )
    assert model.grams.tolist() == sorted(int(token) for token in frequent[:5])


@pytest.mark.parametrize("monitor", [metric.name for metric in Classification.metrics])
def test_whatever_a_run_may_be_selected_by_is_judged_as_the_task_measures_it(monitor: str) -> None:
    data = source()
    spec, split = data.spec(), data.split("validation")
    model = BagOfWords(vocab_size=spec.vocab_size, num_classes=2, ngrams=1, max_features=20, strengths=[1.0])
    direction: Any = "min" if monitor == "loss" else "max"
    solved = fit_with_sklearn(model, data.split("train"), split, monitor=monitor, direction=direction)
    task = Classification(monitor=monitor).bind(spec)
    task.measure("validation", model, task.view(split.batch(np.arange(40)), seed=0, epoch=0))
    assert solved.judged == {1.0: pytest.approx(task.results("validation")[monitor], rel=1e-5)}


@pytest.mark.slow
def test_a_run_leaves_a_record_like_any_other(tmp_path: Path) -> None:
    overrides = [
        "data=sentence_grammar", "data.num_train=120", "data.num_validation=40", "data.num_test=40",
        "task=classification", "model=bag_of_words", "model.ngrams=1", "model.strengths=[10.0]",
        "trainer.train_rows=90",
        "trainer=cpu", "trainer.progress_bar=false", "probe=none", "tracking=none", f"output_dir={tmp_path}",
    ]  # fmt: skip
    record = h2h.train(h2h.compose("train", overrides))
    data = from_fields(SentenceGrammar, num_train=120, num_validation=40, num_test=40)
    (every, classes), (rows, truth) = token_lists(data, "train"), token_lists(data, "test")
    saved = fewer_rows(data.split("train"), 90, record.seeds.data_order).batch(np.arange(90)).rows.tolist()
    train, labels = [every[row] for row in saved], classes[saved]
    vectorizer = TfidfVectorizer(analyzer=grams_up_to(1), max_df=89).fit(train)
    solver = LogisticRegression(C=10.0, max_iter=1000).fit(vectorizer.transform(train), labels)
    message = solver.predict(vectorizer.transform(rows))
    assert record.status == "finished" and record.progress.step == 0
    assert record.metrics["test"]["accuracy"] == pytest.approx(accuracy_score(truth, message))
    assert record.metrics["test"]["f1_macro"] == pytest.approx(f1_score(truth, message, average="macro"))
    assert record.progress.tokens == sum(map(len, train)) > 0 < record.progress.seconds
    assert record.data["train_rows"] == 90
    again = h2h.load_run(record.path)
    batch = again.data.split("test").batch(np.arange(40))
    with torch.no_grad():
        assert again.model(**batch.inputs()).argmax(1).numpy().tolist() == message.tolist()


@pytest.mark.slow
def test_the_strength_is_chosen_by_the_rows_that_validations_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal conditions: networks are selected by a sample, and the rest of validation is nobody's to learn from."""
    judged = []

    def noting(*provided: Any, **more: Any) -> Any:
        judged.append(fit_with_sklearn(*provided, **more))
        return judged[-1]

    monkeypatch.setattr(run_module, "fit_with_sklearn", noting)
    overrides = [
        "data=sentence_grammar", "data.num_train=120", "data.num_validation=40", "data.num_test=40",
        "data.batch_size=3", "task=classification", "model=bag_of_words", "model.ngrams=1",
        f"model.strengths={STRENGTHS}",
        "trainer=cpu", "trainer.progress_bar=false", "probe=none", "tracking=none", f"output_dir={tmp_path}",
    ]  # fmt: skip
    data = from_fields(SentenceGrammar, num_train=120, num_validation=40, num_test=40)
    train, labels = token_lists(data, "train")
    checked, truth = token_lists(data, "validation")
    vectorizer = TfidfVectorizer(analyzer=grams_up_to(1), max_df=119).fit(train)
    for batches, size in ((2, 6), (None, 40)):
        record = h2h.train(h2h.compose("train", [*overrides, f"trainer.validation_batches={batches or 'null'}"]))
        sample = sampled_rows(data.split("validation"), size, EVALUATION_SEED)
        rows = np.arange(40) if batches is None else sample.batch(np.arange(size)).rows.numpy()
        losses = {}
        for strength in STRENGTHS:
            solver = LogisticRegression(C=strength, max_iter=1000).fit(vectorizer.transform(train), labels)
            message = solver.predict_proba(vectorizer.transform([checked[row] for row in rows]))
            losses[strength] = log_loss(truth[rows], message, labels=[0, 1])
        assert judged[-1].judged == pytest.approx(losses, rel=1e-3)
        assert record.selection.value == pytest.approx(min(losses.values()), rel=1e-3)


def test_fewer_rows_are_a_part_of_more_of_them_and_none_is_read_beyond() -> None:
    split = source().split("train")
    drawn = {count: fewer_rows(split, count, seed=4) for count in (10, 50, 120)}
    rows = {count: fewer.batch(np.arange(count)).rows.tolist() for count, fewer in drawn.items()}
    assert set(rows[10]) < set(rows[50]) < set(rows[120]) == set(range(120)) and len(set(rows[10])) == 10
    assert rows[10] != fewer_rows(split, 10, seed=5).batch(np.arange(10)).rows.tolist()
    lengths = split.lengths()
    assert lengths is not None and np.array_equal(drawn[50].lengths(), lengths[rows[50]])
    with pytest.raises(ValueError, match=r"trainer\.train_rows=121 is more than the train split has, 120"):
        fewer_rows(split, 121, seed=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngrams": 9}, r"model\.ngrams=9 is out of reach"),
        ({"strengths": []}, "give at least one"),
    ],
)
def test_what_cannot_be_counted_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BagOfWords(vocab_size=300, num_classes=2, **options)
