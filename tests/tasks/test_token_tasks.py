"""Causal and masked language modelling and sequence to sequence: views, losses, metrics against plain computations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.task import Task
from small_batches import LANGUAGE, PAIRS, head, language_batch, pair_batch, tail
from small_models import VOCAB_SIZE, exact_model, small_model


def cases() -> list[tuple[str, Task, DataSpec, Batch]]:
    causal, masked, pairs = CausalLanguageModelling(), MaskedLanguageModelling(mask_rate=0.4), SequenceToSequence()
    return [
        ("decoder_only", causal.bind(LANGUAGE), LANGUAGE, language_batch()),
        ("encoder_only", masked.bind(LANGUAGE), LANGUAGE, language_batch()),
        ("encoder_decoder", pairs.bind(PAIRS), PAIRS, pair_batch()),
    ]


def plain_logits(model: Architecture, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return logits and targets as rows, from the whole head at once."""
    assert batch.targets is not None
    return model(**batch.inputs()).flatten(0, 1), batch.targets.flatten()


@pytest.mark.parametrize("cap", [None, 0.5])
@pytest.mark.parametrize("position", range(3))
def test_training_loss_and_gradients_equal_plain_cross_entropy(position: int, cap: float | None) -> None:
    family, task, _, batch = cases()[position]
    model = exact_model(family, logit_cap=cap)
    seen = task.view(batch, seed=1, epoch=2)
    loss = task.loss(model, seen)
    logits, targets = plain_logits(model, seen)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    assert abs(loss.total - expected) < 1e-10
    assert loss.count == (targets != IGNORED).sum()
    parameters = list(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(loss.mean, parameters),
        torch.autograd.grad(F.cross_entropy(logits, targets), parameters),
        strict=True,
    ):
        assert (ours - theirs).abs().max() < 1e-10


@pytest.mark.parametrize("position", range(3))
def test_label_smoothing_acts_in_training_only(position: int) -> None:
    family, task, _, batch = cases()[position]
    task.label_smoothing = 0.2
    model = exact_model(family)
    seen = task.view(batch, seed=1, epoch=2)
    logits, targets = plain_logits(model, seen)
    smooth = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=0.2)
    assert abs(task.loss(model, seen).total - smooth) < 1e-10
    model.eval()
    assert abs(task.loss(model, seen).total - F.cross_entropy(logits, targets, reduction="sum")) < 1e-10


@pytest.mark.parametrize("position", range(3))
def test_results_do_not_depend_on_how_rows_fall_into_batches(position: int) -> None:
    family, task, _, batch = cases()[position]
    model = exact_model(family).eval()
    seen = task.view(batch, seed=1, epoch=2)
    task.measure("validation", model, seen)
    whole = task.results("validation")
    task.measure("validation", model, head(seen, 5))
    task.measure("validation", model, tail(seen, 5))
    ragged = task.results("validation")
    assert whole.keys() == ragged.keys()
    assert all(abs(whole[name] - ragged[name]) < 1e-12 for name in whole)


@pytest.mark.parametrize("position", range(3))
def test_samples_whose_targets_are_all_ignored_count_in_no_metric(position: int) -> None:
    family, task, _, batch = cases()[position]
    model = exact_model(family).eval()
    seen = task.view(batch, seed=1, epoch=2)
    assert seen.targets is not None
    padded = replace(seen, targets=torch.cat([seen.targets[:4], torch.full_like(seen.targets[4:], IGNORED)]))
    task.measure("validation", model, head(seen, 4))
    expected = task.results("validation")
    task.measure("validation", model, padded)
    results = task.results("validation")
    assert all(abs(results[name] - expected[name]) < 1e-12 for name in expected)


@pytest.mark.parametrize("cap", [None, 0.5])
@pytest.mark.parametrize("position", range(3))
def test_loss_and_accuracy_equal_a_plain_reimplementation(position: int, cap: float | None) -> None:
    family, task, _, batch = cases()[position]
    model = exact_model(family, logit_cap=cap).eval()
    seen = task.view(batch, seed=1, epoch=2)
    task.measure("test", model, seen)
    results = task.results("test")
    logits, targets = plain_logits(model, seen)
    probabilities = logits.softmax(-1)
    losses, hits = [], []
    for row, target in enumerate(targets.tolist()):
        if target != IGNORED:
            losses.append(-math.log(probabilities[row, target].item()))
            hits.append(probabilities[row].argmax().item() == target)
    assert abs(results["loss"] - sum(losses) / len(losses)) < 1e-10
    accuracy = results["masked_accuracy" if family == "encoder_only" else "token_accuracy"]
    assert abs(accuracy - sum(hits) / len(hits)) < 1e-12
    if "perplexity" in results:
        assert abs(results["perplexity"] - math.exp(sum(losses) / len(losses))) < 1e-6


@pytest.mark.parametrize("position", range(3))
def test_stages_are_measured_apart_and_start_afresh(position: int) -> None:
    family, task, _, batch = cases()[position]
    model = exact_model(family).eval()
    seen = task.view(batch, seed=1, epoch=2)
    task.measure("validation", model, head(seen, 3))
    task.measure("test", model, tail(seen, 3))
    first = task.results("validation")
    with pytest.raises(ValueError, match="was scored"):
        task.results("validation")
    assert task.results("test")["loss"] != first["loss"]


@pytest.mark.parametrize("position", range(3))
def test_an_untrained_model_is_near_the_baseline_loss(position: int) -> None:
    family, task, spec, batch = cases()[position]
    model = small_model(family)
    loss = task.loss(model, task.view(batch, seed=0, epoch=0)).mean.item()
    assert abs(loss - task.baseline(spec)["loss"]) < 0.3
    assert task.baseline(spec)["loss"] == math.log(VOCAB_SIZE)


@pytest.mark.parametrize("position", range(3))
def test_results_hold_the_metrics_that_the_task_names(position: int) -> None:
    family, task, spec, batch = cases()[position]
    model = exact_model(family).eval()
    task.measure("validation", model, task.view(batch, seed=1, epoch=2))
    names = set(task.results("validation"))
    of_texts = {metric.name for metric in SequenceToSequence.metrics[3:]}  # measured where tokens can be read as text
    unseen = ({"bits_per_byte", "exact_match", "last_accuracy"} | of_texts) - names
    assert names | unseen >= {metric.name for metric in task.metrics} >= names
    assert task.monitor in names
    assert names <= set(task.baseline(spec)) <= {metric.name for metric in task.metrics}


@pytest.mark.slow
def test_sums_survive_a_cast_of_the_model_to_bf16() -> None:
    task = CausalLanguageModelling().bind(LANGUAGE).to(torch.bfloat16)
    model = exact_model("decoder_only").eval()
    seen = task.view(language_batch(), seed=0, epoch=0)
    for _ in range(300):
        task.measure("validation", model, seen)
    many = task.results("validation")["loss"]
    task.measure("validation", model, seen)
    assert abs(many - task.results("validation")["loss"]) < 1e-9


def test_a_monitor_that_is_no_metric_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"task\.monitor='acuracy'.*token_accuracy"):
        CausalLanguageModelling(monitor="acuracy")
    assert CausalLanguageModelling(monitor="token_accuracy").direction == "max"
    assert CausalLanguageModelling().direction == "min"


@pytest.mark.parametrize("make", [CausalLanguageModelling, MaskedLanguageModelling, SequenceToSequence])
def test_label_smoothing_out_of_range_is_refused(make: Callable[..., Task]) -> None:
    with pytest.raises(ValueError, match=r"task\.label_smoothing=1\.0"):
        make(label_smoothing=1.0)


def test_a_classifier_head_is_refused_by_name() -> None:
    model = small_model("decoder_only", head="classifier", num_classes=3)
    task = CausalLanguageModelling().bind(LANGUAGE)
    with pytest.raises(ValueError, match="head=Classifier makes no logits over a vocabulary"):
        task.loss(model, task.view(language_batch(), seed=0, epoch=0))
