"""Contrastive pairs: what is compared with what, ranks against a plain computation, and runs that retrieve."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import headtohead as h2h
from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.finished_runs.embedding.embedder import Embedder
from headtohead.finished_runs.finished_run import open_run
from headtohead.tasks.contrastive_pairs import MEASURED_AT, ContrastivePairs, _keys, rank_among_next
from small_batches import LANGUAGE, NEXT, PAIRS, head, pair_batch, sentence_pair_batch, tail
from small_models import redraw, small_model

QUIET = (
    *("model=encoder_only", "task=contrastive_pairs", "data.num_train=60", "data.num_validation=24"),
    *("data.num_test=24", "data.tokenizer=char", "data.batch_size=8", "model.d_model=16", "model.num_layers=1"),
    *("model.num_heads=2", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.accelerator=cpu"),
    *("trainer.threads=1", "tracking=none", "probe=none"),
)


def model_of(pooling: str = "mean", **changes: str) -> Architecture:
    fields = {"head": "text_vector", "pooling": pooling, **changes}
    return redraw(small_model("encoder_only", **fields).double(), std=0.5).eval()


def task_of(spec: object = PAIRS, **options: object) -> ContrastivePairs:
    task = ContrastivePairs(**options).bind(spec)  # type: ignore[arg-type]
    assert isinstance(task, ContrastivePairs)
    return task


def texts_of_pairs(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """Return both texts of each source and target, between start and end."""
    assert batch.tokens is not None and batch.valid is not None and batch.targets is not None
    sources = [row[mask].tolist() for row, mask in zip(batch.tokens, batch.valid, strict=True)]
    targets = [[token for token in row if token not in (IGNORED, PAIRS.eos_id)] for row in batch.targets.tolist()]
    return [(framed(source), framed(target)) for source, target in zip(sources, targets, strict=True)]


def framed(text: list[int]) -> list[int]:
    return [PAIRS.bos_id, *text, PAIRS.eos_id]


def read(view: Batch) -> list[tuple[list[int], list[int]]]:
    assert view.tokens is not None and view.valid is not None
    rows = [row[mask].tolist() for row, mask in zip(view.tokens, view.valid, strict=True)]
    half = len(rows) // 2
    return list(zip(rows[:half], rows[half:], strict=True))


def vector(model: Architecture, text: list[int]) -> Tensor:
    with torch.no_grad():
        return F.normalize(model(torch.tensor([text])), dim=-1)[0]


def test_sources_and_targets_are_read_as_texts_between_start_and_end() -> None:
    batch = pair_batch(7)
    view = task_of().view(batch, seed=0, epoch=0)
    assert read(view) == texts_of_pairs(batch)
    assert view.targets is not None and view.targets.tolist() == [*range(7), *[IGNORED] * 7]
    assert view.rows.tolist() == [*range(7), *range(7)]


def test_labelled_pairs_are_divided_and_only_those_of_the_class_ask() -> None:
    batch = sentence_pair_batch(9)
    view = task_of(NEXT, positive="next").view(batch, seed=0, epoch=0)
    assert batch.tokens is not None and batch.token_types is not None and batch.valid is not None
    assert batch.targets is not None and view.targets is not None
    for row, (first, second) in enumerate(read(view)):
        real = batch.tokens[row][batch.valid[row]].tolist()
        assert first + second[1:] == real and second[0] == NEXT.bos_id
    assert view.targets[:9].tolist() == [row if label == 0 else IGNORED for row, label in enumerate(batch.targets)]


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_the_loss_is_the_cross_entropy_of_cosines_over_temperature(pooling: str) -> None:
    model, task, batch = model_of(pooling), task_of(temperature=0.2), pair_batch(6)
    pairs = texts_of_pairs(batch)
    first = torch.stack([vector(model, one) for one, _ in pairs])
    second = torch.stack([vector(model, other) for _, other in pairs])
    expected = F.cross_entropy(first @ second.T / 0.2, torch.arange(6), reduction="sum")
    loss = task.loss(model, task.view(batch, seed=0, epoch=0))
    assert abs(loss.total.detach() - expected) < 1e-9 and loss.count == 6


def test_pairs_that_do_not_belong_together_bring_candidates_alone() -> None:
    model, task, batch = model_of(), task_of(NEXT, positive="next"), sentence_pair_batch(8)
    view = task.view(batch, seed=0, epoch=0)
    with torch.no_grad():
        first, second = F.normalize(model(**view.inputs()), dim=-1).chunk(2)
    assert batch.targets is not None
    asks = batch.targets == 0
    losses = F.cross_entropy(first @ second.T / 0.05, torch.arange(8), reduction="none")
    loss = task.loss(model, view)
    assert 0 < loss.count == asks.sum() < 8
    assert abs(loss.total.detach() - losses[asks].sum()) < 1e-9


@pytest.mark.parametrize("candidates", [2, 5, 40])
def test_results_are_those_of_a_plain_ranking_however_rows_fall_into_batches(candidates: int) -> None:
    model, batch, number = model_of(), pair_batch(17), 17
    pairs = [(vector(model, one).numpy(), vector(model, other).numpy()) for one, other in texts_of_pairs(batch)]
    losses, hits, reciprocals = [], [], []
    for row in range(number):
        near = [pairs[row][0] @ pairs[(row + step) % number][1] for step in range(min(candidates, number))]
        losses.append(math.log(sum(math.exp(value / MEASURED_AT) for value in near)) - near[0] / MEASURED_AT)
        rank = 1 + sum(value > near[0] for value in near[1:])
        hits.append(rank == 1)
        reciprocals.append(1 / rank)
    expected = {
        "loss": np.mean(losses),
        "retrieval_accuracy": np.mean(hits),
        "retrieval_mrr": np.mean(reciprocals),
    }
    task = task_of(candidates=candidates)
    for parts in ([batch], [head(batch, 11), tail(batch, 11)], [tail(batch, 3), head(batch, 3)]):
        for part in parts:
            task.measure("test", model, task.view(part, seed=0, epoch=0))
        assert task.results("test") == pytest.approx(expected, abs=1e-9)
    chance = task.measured_baseline("test")
    assert chance["retrieval_accuracy"] == 1 / min(candidates, number)


def test_a_model_that_says_the_same_of_every_text_is_at_chance() -> None:
    same = np.ones((50, 2, 4)) / 2
    result = rank_among_next(same, 20, np.arange(50))
    chance = task_of(candidates=20).baseline(PAIRS)
    means = [float(result[name].mean()) for name in ("loss", "correct", "reciprocal")]
    assert means == pytest.approx(list(chance.values()))
    assert chance["retrieval_accuracy"] == 0.05 and chance["loss"] == math.log(20)


def test_texts_equal_to_the_own_one_are_no_candidates() -> None:
    """A model that tells seven texts apart is always right about a hundred rows that share them."""
    texts = np.arange(100) % 7
    vectors = np.eye(7)[texts]
    result = rank_among_next(np.stack([vectors, vectors], axis=1), 20, texts)
    assert result["correct"].min() == 1.0 and result["size"].min() < 20
    task, batch = task_of(), pair_batch(6)
    twice = replace(
        batch,
        decoder_tokens=None if batch.decoder_tokens is None else batch.decoder_tokens[:1].repeat(6, 1),
        decoder_valid=None if batch.decoder_valid is None else batch.decoder_valid[:1].repeat(6, 1),
    )
    loss = task.loss(model_of(), task.view(twice, seed=0, epoch=0))
    assert loss.total.item() == 0.0, "no text is another's negative"
    one, other = task.view(head(batch, 3), seed=0, epoch=0), task.view(batch, seed=0, epoch=0)
    assert _keys(one).tolist()[:3] == _keys(other).tolist()[:3], "padding is no part of a text"


def test_the_row_scores_of_a_test_average_to_its_results() -> None:
    model, task, batch = model_of(), task_of(NEXT, positive="next"), sentence_pair_batch(12)
    with task.rows.collecting() as rows:
        task.measure("test", model, task.view(batch, seed=0, epoch=0))
        results = task.results("test")
        columns = rows.columns()
    for name, (total, count) in task.row_ratios.items():
        assert columns[total].sum() / columns[count].sum() == pytest.approx(results[name], rel=1e-5)


def test_rows_that_a_model_reads_are_no_longer_than_it_is_told() -> None:
    for spec, batch, options in ((PAIRS, pair_batch(40), {}), (NEXT, sentence_pair_batch(40), {"positive": "random"})):
        task = task_of(spec, **options)
        view = task.view(batch, seed=0, epoch=0)
        assert view.tokens is not None and view.tokens.shape[1] <= task.rows_read(spec).max_length


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (NEXT, {}, "task.positive=null must name .* next, random"),
        (NEXT, {"positive": "entailment"}, "task.positive=entailment must name .* next, random"),
        (PAIRS, {"positive": "next"}, "task.positive=next is a class of labelled pairs"),
        (replace(NEXT, num_texts=1), {"positive": "next"}, "a row of this data is one text"),
        (PAIRS, {"candidates": 1}, "task.candidates=1"),
    ],
)
def test_data_without_pairs_and_unknown_classes_are_refused(spec: object, options: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task_of(spec, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.accumulate=2", r"trainer\.accumulate=2 splits"),
        ("trainer=ddp", r"splits"),
        ("data.batch_size=1", "at least 2"),
        ("finetuning.freeze=body", "leaves nothing to train"),
        ("parametrisation=mup", "no rule is published for cosines"),
    ],
)
def test_what_cannot_be_combined_is_refused(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        h2h.compose("train", [*QUIET, "data=number_words", override])


def test_language_is_refused_for_lack_of_pairs() -> None:
    with pytest.raises(ValueError, match="pairs_of_text"):
        h2h.compose("train", ["model=encoder_only", "task=contrastive_pairs"])
    assert LANGUAGE.kind not in ContrastivePairs.data_kinds


@pytest.mark.slow
def test_a_run_learns_to_find_number_words_and_embeds_as_it_was_trained(tmp_path: Path) -> None:
    overrides = [*QUIET, "data=number_words", "data.num_train=500", "data.num_test=64", f"output_dir={tmp_path}"]
    longer = ["trainer.max_steps=60", "trainer.validate_every=60", "task.candidates=8", "optimizer.lr=0.003"]
    record = h2h.train(h2h.compose("train", [*overrides, *longer, "model.pooling=mean"]))
    assert record.status == "finished" and record.path is not None
    results, chance = record.metrics["test"], 1 / 8
    assert results["retrieval_accuracy"] > 2 * chance
    run = open_run(record.path)
    view = run.task.view(run.data.split("test").batch(np.arange(3)), seed=0, epoch=0)
    with torch.no_grad():
        expected = F.normalize(run.model(**view.inputs()).double(), dim=-1)[:3]
    texts = [run.data.decode(tokens) for tokens, _ in read(view)]
    embedder = Embedder(run)
    assert embedder.pooling == "mean"
    assert np.abs(embedder.embed(texts) - expected.numpy()).max() < 1e-5
