"""Classification of texts and images: metrics against scikit-learn on the same predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    log_loss,
    matthews_corrcoef,
    precision_recall_fscore_support,
)
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.metrics.metric import MetricTable
from headtohead.tasks import classification
from headtohead.tasks.class_metrics import ClassTotals, f1_of, figures_of, matthews
from headtohead.tasks.classification import Classification, ImageClassification
from small_batches import NEXT, sentence_pair_batch
from small_models import VOCAB_SIZE, redraw, small_model

NUM_CLASSES = 5
TEXT = DataSpec(kind="labelled_text", vocab_size=VOCAB_SIZE, num_classes=NUM_CLASSES, max_length=12)
IMAGES = DataSpec(kind="images", num_classes=NUM_CLASSES, image_shape=(3, 8, 8))


def case(family: str, num_samples: int = 41) -> tuple[Classification, Architecture, Batch]:
    generator = torch.Generator().manual_seed(0)
    # Class 3 is rare and class 4 never occurs.
    targets = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3])[torch.randint(0, 8, (num_samples,), generator=generator)]
    rows = torch.arange(num_samples)
    if family == "vision_transformer":
        batch = Batch(rows=rows, images=torch.randn(num_samples, 3, 8, 8, generator=generator).double())
        task: Classification = ImageClassification().bind(IMAGES)
        model = small_model(family)
    else:
        tokens = torch.randint(5, VOCAB_SIZE, (num_samples, 10), generator=generator)
        valid = torch.arange(10) < torch.randint(1, 11, (num_samples, 1), generator=generator)
        batch = Batch(rows=rows, tokens=tokens, valid=valid)
        task = Classification().bind(TEXT)
        model = small_model(family, head="classifier", num_classes=NUM_CLASSES)
    redraw(model.double(), std=0.7)
    with torch.no_grad():
        # A random model says nearly the same of all samples: what they have in common is taken out.
        model.head.linear.bias -= model.eval()(**batch.inputs()).mean(0)
    return task, model.eval(), replace(batch, targets=targets)


FAMILIES = ("encoder_only", "decoder_only", "vision_transformer")


@pytest.mark.parametrize("family", FAMILIES)
def test_metrics_equal_those_of_scikit_learn(family: str) -> None:
    task, model, batch = case(family)
    task.measure("test", model, batch.map(lambda tensor: tensor[:30]))
    task.measure("test", model, batch.map(lambda tensor: tensor[30:]))
    results = task.results("test")
    with torch.no_grad():
        probabilities = model(**batch.inputs()).softmax(-1).numpy()
    truth, predicted = batch.targets.numpy(), probabilities.argmax(1)
    assert len(np.unique(predicted)) > 2, "a model that says one thing would test little"
    precision, recall, f1, _ = precision_recall_fscore_support(truth, predicted, average="macro", zero_division=0)
    expected = {
        "loss": log_loss(truth, probabilities, labels=range(NUM_CLASSES)),
        "accuracy": accuracy_score(truth, predicted),
        "precision_macro": precision,
        "recall_macro": recall,
        "f1_macro": f1,
        "matthews": matthews_corrcoef(truth, predicted),
    }
    assert results.keys() == expected.keys() == {metric.name for metric in task.metrics} - {"f1_second_class"}
    for name, value in expected.items():
        assert results[name] == pytest.approx(value, abs=2e-7), name
    table = task.tables("test")["confusion_matrix"]
    assert table.is_matrix and table.columns[1:] == ("0", "1", "2", "3", "4")
    counts = [row[1:] for row in table.rows]
    assert np.array_equal(counts, confusion_matrix(truth, predicted, labels=range(NUM_CLASSES)))


@pytest.mark.parametrize("family", FAMILIES)
def test_ignored_samples_count_nowhere(family: str) -> None:
    task, model, batch = case(family)
    task.measure("test", model, batch.map(lambda tensor: tensor[:30]))
    expected = task.results("test")
    padded = replace(batch, targets=torch.where(torch.arange(41) < 30, batch.targets, IGNORED))
    task.measure("test", model, padded)
    assert task.results("test") == pytest.approx(expected, abs=1e-12)
    assert task.loss(model, padded).count == 30


def test_label_smoothing_acts_in_training_only() -> None:
    task, model, batch = case("encoder_only")
    task.label_smoothing = 0.3
    logits = model(**batch.inputs())
    assert abs(task.loss(model, batch).mean - F.cross_entropy(logits, batch.targets)) < 1e-12
    model.train()
    assert abs(task.loss(model, batch).mean - F.cross_entropy(logits, batch.targets, label_smoothing=0.3)) < 1e-12


def test_an_untrained_model_is_near_the_baseline_loss() -> None:
    task, _, batch = case("encoder_only")
    model = small_model("encoder_only", head="classifier", num_classes=NUM_CLASSES).double()
    baseline = task.baseline(TEXT)
    assert abs(task.loss(model, batch).mean.item() - baseline["loss"]) < 0.2
    assert baseline["accuracy"] == pytest.approx(0.2)


@pytest.mark.parametrize("labels", [[0] * 6 + [1] * 3 + [2] * 3, [0, 0, 2, 2, 2, 1]])
def test_the_baseline_is_what_the_largest_class_and_the_shares_get(labels: list[int]) -> None:
    truth, blind = np.array(labels), np.zeros((len(labels), 1))
    shares = tuple(float(share) for share in np.bincount(truth) / len(truth))
    largest = DummyClassifier(strategy="most_frequent").fit(blind, truth).predict(blind)
    prior = DummyClassifier(strategy="prior").fit(blind, truth).predict_proba(blind)
    precision, recall, f1, _ = precision_recall_fscore_support(truth, largest, average="macro", zero_division=0)
    spec = replace(TEXT, num_classes=3, class_shares=shares)
    assert Classification().baseline(spec) == pytest.approx(
        {
            "loss": log_loss(truth, prior),
            "accuracy": accuracy_score(truth, largest),
            "precision_macro": precision,
            "recall_macro": recall,
            "f1_macro": f1,
            "matthews": 0.0,
        }
    )


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 1, 1, 1]])
def test_the_baseline_of_two_classes_has_the_f1_of_the_second(labels: list[int]) -> None:
    truth = np.array(labels)
    largest = np.full(len(labels), np.bincount(truth).argmax())
    shares = tuple(float(share) for share in np.bincount(truth) / len(truth))
    spec = replace(TEXT, num_classes=2, class_shares=shares)
    expected = f1_score(truth, largest, pos_label=1, zero_division=0.0)
    assert Classification().baseline(spec)["f1_second_class"] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("num_classes", [2, 3])
def test_figures_of_a_confusion_matrix_are_those_of_scikit_learn(num_classes: int, seed: int) -> None:
    truth, predicted = np.random.default_rng(seed).integers(num_classes, size=(2, 30))
    counts = ClassTotals.of(confusion_matrix(truth, predicted, labels=range(num_classes)).tolist())
    of_samples = ClassTotals.counted(predicted, truth, num_classes)
    assert figures_of(of_samples) == figures_of(counts)
    assert matthews(counts) == pytest.approx(matthews_corrcoef(truth, predicted))
    for number in range(num_classes):
        f1 = f1_score(truth, predicted, labels=[number], average="macro")
        assert f1_of(counts, number) == pytest.approx(f1)


def test_naming_one_class_always_correlates_with_nothing_and_finds_no_other() -> None:
    one = ClassTotals.of([[5, 0], [3, 0]])
    assert matthews(one) == 0.0 == f1_of(one, 1)
    assert matthews_corrcoef([0] * 5 + [1] * 3, [0] * 8) == 0.0


def test_two_classes_have_the_f1_of_the_second_which_may_select() -> None:
    batch = sentence_pair_batch(40)
    task = Classification(monitor="f1_second_class").bind(NEXT)
    model = redraw(small_model("encoder_only", head="classifier", num_classes=2).double(), std=0.5).eval()
    task.measure("test", model, batch)
    with torch.no_grad():
        predicted = model(**batch.inputs()).argmax(1).numpy()
    results = task.results("test")
    assert results["f1_second_class"] == pytest.approx(f1_score(batch.targets.numpy(), predicted))
    assert results["matthews"] == pytest.approx(matthews_corrcoef(batch.targets.numpy(), predicted))
    with pytest.raises(ValueError, match=r"task\.monitor=f1_second_class judges two classes, and this data has 5"):
        Classification(monitor="f1_second_class").bind(TEXT)


def test_samples_show_text_or_row_truth_and_prediction() -> None:
    task, model, batch = case("encoder_only", 5)
    named = task.bind(replace(TEXT, class_names=("one", "two", "three", "four", "five")))
    samples = named.samples(model, batch, lambda ids: "-".join(map(str, ids)))
    with torch.no_grad():
        shares = model(**batch.inputs()).softmax(-1)
    for row, sample in enumerate(samples):
        assert sample["text"] == "-".join(str(token) for token in batch.tokens[row, batch.valid[row]].tolist())
        assert sample["truth"] == ("one", "two", "three", "four", "five")[batch.targets[row]]
        assert sample["predicted"] == ("one", "two", "three", "four", "five")[shares[row].argmax()]
        assert float(sample["confidence"]) == pytest.approx(shares[row].max().item(), abs=6e-4)
    task, model, batch = case("vision_transformer", 5)
    assert [sample["row"] for sample in task.samples(model, batch, str)] == ["0", "1", "2", "3", "4"]


def test_data_without_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1 class \(good\): classification needs at least 2; give rows of another"):
        Classification().bind(DataSpec(kind="labelled_text", num_classes=1, class_names=("good",)))


def test_a_batch_without_labels_is_refused_with_the_kind_of_data_to_choose() -> None:
    batch = Batch(rows=torch.arange(1), tokens=torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="no labels: choose data of kind labelled_text"):
        Classification().bind(TEXT).view(batch, seed=0, epoch=0)


def test_classes_too_many_for_a_matrix_have_the_same_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of classes would cost the square of their number at each batch, and a table that nobody reads."""
    spec, truth = replace(TEXT, num_classes=5), torch.tensor([0, 1, 2, 2, 4, 4])
    predicted = torch.tensor([0, 2, 2, 2, 4, 1])

    def measured(most: int) -> tuple[dict[str, float], dict[str, float], Mapping[str, MetricTable]]:
        monkeypatch.setattr(classification, "MOST_IN_MATRIX", most)
        task = Classification()
        task.bind(spec)
        for part in (slice(0, 2), slice(2, 6)):
            task.sums.add("test", loss=1.5, samples=3)
            task.count("test", predicted[part], truth[part])
        return task.results("test"), task.measured_baseline("test"), task.tables("test")

    (results, baseline, tables), few = measured(4), measured(5)
    assert (results, baseline, tables["per_class"]) == (few[0], few[1], few[2]["per_class"])
    assert set(few[2]) - set(tables) == {"confusion_matrix"}
