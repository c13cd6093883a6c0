"""Masked language modelling with next-sentence prediction: both losses, weighed so that they count alike."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.next_sentence import MaskedLanguageModellingWithNextSentence
from small_batches import NEXT, decode, head, sentence_pair_batch, tail
from small_models import VOCAB_SIZE, redraw, small_model


def case(
    num_rows: int = 30, mask_rate: float = 0.4
) -> tuple[MaskedLanguageModellingWithNextSentence, Architecture, Batch]:
    task = MaskedLanguageModellingWithNextSentence(mask_rate=mask_rate)
    task.bind(NEXT)
    model = redraw(small_model("encoder_only", head=task.head).double(), std=0.5)
    return task, model, task.view(sentence_pair_batch(num_rows), seed=1, epoch=2)


def test_tokens_are_hidden_as_masked_language_modelling_hides_them_and_labels_stay_at_hand() -> None:
    _, _, seen = case()
    batch = sentence_pair_batch(30)
    masked = MaskedLanguageModelling(mask_rate=0.4).bind(NEXT).view(batch, seed=1, epoch=2)
    assert torch.equal(seen.tokens, masked.tokens) and torch.equal(seen.targets, masked.targets)
    assert torch.equal(seen.labels, batch.targets)


def test_training_loss_is_that_of_tokens_and_that_of_pairs_times_the_tokens_hidden_on_average() -> None:
    task, model, seen = case()
    batch = sentence_pair_batch(30)
    features = model.features(**seen.inputs())
    tokens = F.cross_entropy(model.head(features).flatten(0, 1), seen.targets.flatten(), reduction="sum")
    pairs = F.cross_entropy(model.head.pair_logits(features, seen.valid), batch.targets, reduction="none")
    weights = 0.4 * (batch.valid & (batch.tokens >= NEXT.num_special_ids)).sum(1).double()
    loss = task.loss(model, seen)
    assert loss.count == (seen.targets != IGNORED).sum()
    assert abs(loss.total - tokens - (pairs * weights).sum()) < 1e-10


def test_on_average_a_pair_weighs_in_all_as_much_as_the_hidden_tokens() -> None:
    task, _, seen = case(num_rows=400, mask_rate=0.15)
    assert task._expected(seen, torch.float64).sum() / (seen.targets != IGNORED).sum() == pytest.approx(1.0, abs=0.1)


def test_splitting_a_batch_changes_totals_by_rounding_alone() -> None:
    task, model, seen = case()
    whole = task.loss(model, seen)
    parts = [task.loss(model, part) for part in (head(seen, 11), tail(seen, 11))]
    assert abs(whole.total - sum(part.total for part in parts)) < 1e-9
    assert whole.count == sum(part.count for part in parts)


def test_every_parameter_of_the_head_learns() -> None:
    task, model, seen = case()
    task.loss(model, seen).mean.backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in model.head.parameters())


def test_results_equal_a_plain_computation_over_ragged_batches() -> None:
    task, model, seen = case()
    model.eval()
    task.measure("test", model, head(seen, 19))
    task.measure("test", model, tail(seen, 19))
    results = task.results("test")
    with torch.no_grad():
        features = model.features(**seen.inputs())
        predicted = model.head(features).softmax(-1)
        pairs = model.head.pair_logits(features, seen.valid).softmax(-1).numpy()
    chosen = (seen.targets != IGNORED).numpy()
    hidden, truth = predicted.numpy()[chosen], seen.targets.numpy()[chosen]
    tokens = log_loss(truth, hidden, labels=range(VOCAB_SIZE))
    assert 0 < (pairs.argmax(1) == seen.labels.numpy()).mean() < 1
    assert results == pytest.approx(
        {
            "loss": tokens + log_loss(seen.labels.numpy(), pairs, labels=range(2)),
            "perplexity": np.exp(tokens),
            "masked_accuracy": accuracy_score(truth, hidden.argmax(1)),
            "next_sentence_accuracy": accuracy_score(seen.labels.numpy(), pairs.argmax(1)),
        },
        rel=1e-9,
    )
    assert set(results) == {metric.name for metric in task.metrics} == set(task.baseline(NEXT))


def test_the_baseline_of_pairs_is_their_more_frequent_kind() -> None:
    baseline = MaskedLanguageModellingWithNextSentence().baseline(NEXT)
    assert baseline["next_sentence_accuracy"] == 0.6
    entropy = -0.6 * math.log(0.6) - 0.4 * math.log(0.4)
    assert baseline["loss"] == pytest.approx(math.log(VOCAB_SIZE) + entropy)
    assert baseline["perplexity"] == VOCAB_SIZE
    unknown = MaskedLanguageModellingWithNextSentence().baseline(replace(NEXT, class_shares=()))
    assert unknown["next_sentence_accuracy"] == 0.5
    task, _, seen = case()
    untrained = small_model("encoder_only", head=task.head)
    assert task.loss(untrained, seen).mean.item() == pytest.approx(math.log(VOCAB_SIZE) + math.log(2), abs=0.3)


def test_samples_show_both_sentences_and_the_prediction_for_the_pair() -> None:
    task, model, seen = case(num_rows=4)
    samples = task.samples(model.eval(), seen, decode)
    for row, sample in enumerate(samples):
        assert sample["pair"] == NEXT.class_names[seen.labels[row]]
        assert sample["said of the pair"] in NEXT.class_names
        first, _, second = sample["truth"].partition(" | ")
        batch = sentence_pair_batch(4)
        assert first == decode(batch.tokens[row, batch.valid[row] & (batch.token_types[row] == 0)].tolist())
        assert second == decode(batch.tokens[row, batch.token_types[row] == 1].tolist())
        assert "<mask>" in sample["read"] or sample["read"] == sample["truth"]


def test_data_without_pairs_or_with_other_classes_is_refused_with_what_to_choose() -> None:
    task = MaskedLanguageModellingWithNextSentence().bind(NEXT)
    with pytest.raises(ValueError, match=r"a row of this data is one text: choose .* data\.relation=next"):
        task.bind(replace(NEXT, num_texts=1))
    with pytest.raises(ValueError, match="this data has 3 classes"):
        task.bind(replace(NEXT, num_classes=3))
    seen = task.bind(NEXT).view(sentence_pair_batch(), seed=0, epoch=0)
    with pytest.raises(ValueError, match="head=MaskedLanguageModel says nothing of pairs"):
        task.loss(small_model("encoder_only"), seen)
