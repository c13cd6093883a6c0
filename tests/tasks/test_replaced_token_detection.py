"""Replaced tokens: the joint loss by hand, what is drawn, who learns from what, and where the model goes from there."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import headtohead as h2h
from headtohead.architectures.architecture import InputSize
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting
from headtohead.architectures.replaced_tokens import GENERATOR, ReplacedTokenDetector
from headtohead.architectures.token_stack import EncoderOnly
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.finished_runs.export_run import export
from headtohead.finished_runs.finished_run import open_run
from headtohead.tasks.replaced_token_detection import ReplacedTokenDetection
from headtohead.training.checkpoints import load_best
from small_batches import LANGUAGE, language_batch
from small_models import exact_model, small_model

HEAD = {"head": "replaced_token_detector", "mask_rate": 0.4}
QUIET = (
    "model=encoder_only", "data.num_train=40", "data.num_validation=8", "data.num_test=8",
    "data.tokenizer=char", "data.batch_size=4", "model.d_model=16", "model.num_layers=1", "model.num_heads=2",
    "model/residual=post", "model.embedding_norm=true", "model.pooler=gelu", "trainer.max_steps=2",
    "trainer.validate_every=2", "trainer.accelerator=cpu", "trainer.threads=1", "tracking=none", "probe=none",
)  # fmt: skip

DETECTION = ("task=replaced_token_detection", "data=sentence_grammar", "model.norm.eps=1e-12")


def seen(num_rows: int = 6) -> tuple[ReplacedTokenDetection, EncoderOnly, Batch]:
    """Return the task, an exact model and a view of rows."""
    task, model = ReplacedTokenDetection(mask_rate=0.4), exact_model("encoder_only", **HEAD)
    task.bind(LANGUAGE)
    assert isinstance(model, EncoderOnly)
    return task, model, task.view(language_batch(num_rows), seed=0, epoch=0)


def test_only_real_tokens_are_hidden_and_scored() -> None:
    task = ReplacedTokenDetection(mask_rate=0.4)
    task.bind(LANGUAGE)
    batch = language_batch(64)
    view = task.view(batch, seed=0, epoch=0)
    assert view.tokens is not None and view.targets is not None
    assert batch.tokens is not None and batch.valid is not None
    assert torch.equal(view.targets, torch.where(batch.valid, batch.tokens, IGNORED))
    hidden = view.tokens == LANGUAGE.mask_id
    assert torch.equal(torch.where(hidden, batch.tokens, view.tokens), batch.tokens)
    assert 0.3 < hidden.sum() / batch.valid.sum() < 0.5 and not (hidden & ~batch.valid).any()


def test_the_loss_is_the_generators_plus_fifty_times_the_models() -> None:
    task, model, view = seen()
    loss, proposals = task.loss(model, view), task.propose(model, view)
    assert view.targets is not None and view.tokens is not None and isinstance(model.head, ReplacedTokenDetector)
    hidden = view.tokens == LANGUAGE.mask_id
    features = model.generator_features(**view.inputs())
    restored = F.cross_entropy(model.head.generator.head(features)[hidden], view.targets[hidden], reduction="sum")
    logits = model(**{**view.inputs(), "tokens": proposals.tokens})
    total = 0.0
    for row, column in (view.targets != IGNORED).nonzero().tolist():
        replaced = float(proposals.tokens[row, column] != view.targets[row, column])
        share = logits[row, column].sigmoid()
        total = total - (replaced * share.log() + (1 - replaced) * (1 - share).log())
    assert abs(loss.total - (restored / 0.4 + 50.0 * total)) < 1e-9
    assert loss.count == (view.targets != IGNORED).sum()


@pytest.mark.slow
def test_tokens_are_drawn_from_the_generators_distribution_and_a_right_one_is_not_replaced() -> None:
    task, model, view = seen(2)
    assert view.targets is not None and view.tokens is not None and isinstance(model.head, ReplacedTokenDetector)
    hidden = (view.tokens == LANGUAGE.mask_id).nonzero()[0].tolist()
    features = model.generator_features(**view.inputs())
    expected = model.head.generator.head(features)[hidden[0], hidden[1]].softmax(-1)
    assert view.draws is not None
    counts, number = torch.zeros(len(expected)), 400
    for index in range(number):
        draws = view.draws.clone()
        draws[hidden[0], hidden[1]] = (index + 0.5) / number
        counts[task.propose(model, replace(view, draws=draws)).tokens[hidden[0], hidden[1]]] += 1
    assert (counts / number - expected).abs().max() < 1 / number + 1e-6


def test_the_two_learn_from_their_own_losses_alone() -> None:
    for weight, learns in ((1e-30, GENERATOR), (1.0, "")):
        task, model, view = seen()
        task.discriminator_weight = weight
        loss = task.loss(model, view)
        if weight == 1.0:  # the model's share of the loss
            loss = replace(loss, total=loss.total - task.propose(model, view).losses.sum() / task.mask_rate)
        loss.total.backward()
        moved = {
            name for name, held in model.named_parameters() if held.grad is not None and held.grad.abs().max() > 1e-9
        }
        shared = {name for name in moved if name.startswith(("embedding.", "segment_embedding."))}
        assert all(name.startswith(GENERATOR) is bool(learns) for name in moved - shared)


def test_a_row_gives_the_same_whatever_stands_beside_it() -> None:
    task, model, view = seen()
    whole = task.loss(model, view)
    parts = [task.loss(model, view.chosen(rows)) for rows in (torch.tensor([0, 3]), torch.tensor([1, 2, 4, 5]))]
    assert abs(whole.total - sum(part.total for part in parts)) < 1e-9
    assert whole.count == sum(part.count for part in parts)


def test_metrics_count_what_was_flagged() -> None:
    task, model, view = seen()
    task.measure("test", model, view)
    results = task.results("test")
    proposals = task.propose(model, view)
    logits = model(**{**view.inputs(), "tokens": proposals.tokens})
    assert view.targets is not None
    counted = view.targets != IGNORED
    truth, flagged = (proposals.tokens != view.targets)[counted], (logits > 0)[counted]
    right = int((truth & flagged).sum())
    assert results["detection_accuracy"] == float((truth == flagged).double().mean())
    assert math.isclose(results["detection_f1"], 2 * right / int(truth.sum() + flagged.sum()))
    assert math.isclose(results["loss"], float(task.loss(model, view).mean.detach()), rel_tol=1e-9)
    guess = task.measured_baseline("test")
    assert guess["detection_accuracy"] == max(float(truth.double().mean()), float((~truth).double().mean()))
    assert guess.keys() == results.keys() and guess["loss"] < task.chance()["loss"]


def test_the_ledger_counts_the_generator_in_training_alone() -> None:
    task = ReplacedTokenDetection(mask_rate=0.25)
    task.bind(LANGUAGE)
    model = small_model("encoder_only", head="replaced_token_detector", mask_rate=0.25)
    tokens = torch.randint(5, 29, (1, 12))
    view = replace(task.view(Batch(rows=torch.arange(1), tokens=tokens), seed=0, epoch=0), tokens=tokens.clone())
    assert view.tokens is not None
    view.tokens[0, :3] = LANGUAGE.mask_id
    totals = ledger(model, InputSize(length=12)).totals
    with counting() as ran, torch.no_grad():
        model(view.tokens)
    assert totals.forward_flops_per_sample == ran.products
    with counting() as ran:
        task.loss(model, view).total.backward()
    assert totals.training_flops_per_sample == ran.products
    assert totals.parameters == sum(held.numel() for held in model.parameters())


@pytest.mark.parametrize(
    ("fields", "size"),
    [({}, (4, 2, 2)), ({"generator_width": 0.5, "generator_layers": 1, "generator_heads": 1}, (8, 1, 1))],
    ids=str,
)
def test_the_generators_size_is_what_the_task_says(fields: dict[str, float], size: tuple[int, int, int]) -> None:
    head = small_model("encoder_only", head="replaced_token_detector", **fields).head
    assert isinstance(head, ReplacedTokenDetector)
    stack = head.generator.stack
    assert (stack.d_model, stack.num_layers, stack.num_heads) == size


def trained(folder: Path, *overrides: str) -> Path:
    record = h2h.train(h2h.compose("train", [*QUIET, *overrides, f"output_dir={folder}"]))
    assert record.status == "finished" and record.path is not None, record.reason
    return record.path


@pytest.mark.slow
def test_the_model_is_fine_tuned_and_exported_without_its_generator(tmp_path: Path) -> None:
    first = trained(tmp_path, *DETECTION)
    tuned = ("data=sentence_grammar", "task=classification", "model.norm.eps=1e-12", "optimizer.lr=1e-12")
    second = trained(tmp_path, *tuned, f"init_from=run:{first}")
    before, after = (load_best(path)["model"] for path in (first, second))
    body = [name for name in after if not name.startswith("head.")]
    assert body and all(torch.allclose(after[name], before[name], atol=1e-8) for name in body)
    hub = export(open_run(first), "hub").files[0].parent
    third = trained(tmp_path, *DETECTION, f"init_from=hf:{hub}", "optimizer.lr=1e-12")
    again = load_best(third)["model"]
    taken = [name for name in again if not name.startswith(GENERATOR)]
    assert all(torch.allclose(again[name], before[name], atol=1e-8) for name in taken)


def test_other_models_and_other_data_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be done by"):
        h2h.compose("train", ["task=replaced_token_detection", "model=decoder_only"])
    with pytest.raises(ValueError, match="cannot scale the generator of task=replaced_token_detection"):
        h2h.compose("train", ["task=replaced_token_detection", "model=encoder_only", "parametrisation=mup"])
