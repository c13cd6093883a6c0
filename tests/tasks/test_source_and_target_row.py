"""Source and target in one row, and targets written at once: the same answers are requested, nothing else is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.seq2seq_one_stack import (
    SequenceToSequenceAtOnce,
    SequenceToSequenceInOneRow,
    continue_from_source,
    source_and_target,
    source_then_target,
)
from headtohead.tasks.task import Task
from small_batches import PAIRS, pair_batch
from small_models import exact_model

WAYS: dict[str, tuple[type[SequenceToSequence], str]] = {
    "one row": (SequenceToSequenceInOneRow, "decoder_only"),
    "at once": (SequenceToSequenceAtOnce, "encoder_only"),
}


def real(tokens: torch.Tensor, valid: torch.Tensor | None, row: int) -> list[int]:
    return tokens[row].tolist() if valid is None else tokens[row][valid[row]].tolist()


def targets_in(batch: Batch, row: int) -> list[int]:
    return [target for target in batch.targets[row].tolist() if target != IGNORED]


def made(way: str) -> tuple[Any, Architecture, Batch]:
    make, family = WAYS[way]
    task = make().bind(PAIRS)
    return task, exact_model(family, head=task.head, max_length=64).eval(), pair_batch(6)


@pytest.mark.parametrize("masks", ["both", "neither"])
def test_rows_are_joined_without_a_gap(masks: str) -> None:
    batch = pair_batch(5)
    valid, after = (batch.valid, batch.decoder_valid) if masks == "both" else (None, None)
    tokens, saved, indices = source_and_target(batch.tokens, batch.decoder_tokens, valid, after)
    for row in range(5):
        first, second = real(batch.tokens, valid, row), real(batch.decoder_tokens, after, row)
        assert tokens[row][saved[row]].tolist() == first + second
        assert indices[row][: len(second)].tolist() == list(range(len(first), len(first) + len(second)))
        assert saved[row].tolist() == sorted(saved[row].tolist(), reverse=True), "padding is on the right"


def test_targets_laid_out_are_taken_up_again() -> None:
    batch = pair_batch(5)
    tokens, _, indices = source_and_target(batch.tokens, batch.decoder_tokens, batch.valid, batch.decoder_valid)
    taken = continue_from_source(source_then_target(batch.targets, indices, tokens.shape[1]))
    assert [targets_in(replace(batch, targets=taken), row) for row in range(5)] == [
        targets_in(batch, row) for row in range(5)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_the_targets_are_those_of_an_encoder_decoder(way: str) -> None:
    task, _, batch = made(way)
    view = task.view(batch, seed=0, epoch=0)
    assert [targets_in(view, row) for row in range(6)] == [targets_in(batch, row) for row in range(6)]
    assert view.decoder_tokens is None


def test_in_one_row_a_target_stands_where_its_token_is_to_be_predicted() -> None:
    task, _, batch = made("one row")
    view = task.view(batch, seed=0, epoch=0)
    for row in range(6):
        source, target = real(batch.tokens, batch.valid, row), targets_in(batch, row)
        ids = real(view.tokens, view.valid, row)
        assert ids == [*source, PAIRS.bos_id, *target[:-1]]
        assert view.targets[row][len(source) : len(source) + len(target)].tolist() == target


def test_in_one_row_exact_match_is_of_what_is_written_token_by_token() -> None:
    """The expectation reads the whole row again for each token, one sample at a time; the first token is wrong in odd
    rows."""
    task, model, batch = made("one row")
    targets = torch.full((6, 5), IGNORED)
    for row in range(6):
        ids = [*real(batch.tokens, batch.valid, row), PAIRS.bos_id]
        written: list[int] = []
        while len(written) < 5 and PAIRS.eos_id not in written:
            written.append(int(model(tokens=torch.tensor([ids + written]))[0, -1].argmax()))
        right = written if row % 2 == 0 else [written[0] ^ 1, *written[1:]]
        targets[row, : len(right)] = torch.tensor(right)
    read = torch.cat([torch.full((6, 1), PAIRS.bos_id), targets[:, :-1].clamp(min=0)], 1)
    view = task.view(
        replace(batch, targets=targets, decoder_tokens=read, decoder_valid=targets != IGNORED), seed=0, epoch=0
    )
    task.measure("test", model, view)
    assert task.results("test")["exact_match"] == 0.5


def test_at_once_no_row_tells_how_long_its_target_is() -> None:
    """Neither another target, longer or shorter, nor other rows beside it change any logit of a row."""
    task, model, batch = made("at once")
    whole = task.view(batch, seed=0, epoch=0)
    cut = replace(
        batch,
        targets=batch.targets.masked_fill(torch.arange(batch.targets.shape[1]) > 0, IGNORED),
        decoder_tokens=torch.full_like(batch.decoder_tokens, 9),
    )
    other = task.view(cut, seed=0, epoch=0)
    assert torch.equal(whole.tokens, other.tokens) and torch.equal(whole.valid, other.valid)
    assert (whole.valid.sum(1) == batch.valid.sum(1) + PAIRS.max_target_length).all()
    alone = task.view(batch.map(lambda tensor: tensor[:1]), seed=0, epoch=0)
    length = int(whole.valid[0].sum())
    torch.testing.assert_close(
        model(**alone.inputs())[0, :length], model(**whole.inputs())[0, :length], rtol=1e-6, atol=1e-8
    )


def test_at_once_exact_match_is_of_the_likeliest_token_of_every_place() -> None:
    task, model, batch = made("at once")
    view = task.view(batch, seed=0, epoch=0)
    predicted = model(**view.inputs()).argmax(-1)
    rows = torch.arange(6)[:, None] % 2 == 0
    targets = torch.where(view.targets == IGNORED, IGNORED, torch.where(rows, predicted, predicted ^ 1))
    task.measure("test", model, replace(view, targets=targets))
    results = task.results("test")
    assert results["exact_match"] == 0.5
    assert 0.0 < results["token_accuracy"] < 1.0


@pytest.mark.parametrize("way", WAYS)
def test_samples_show_source_truth_and_what_is_written(way: str) -> None:
    task, model, batch = made(way)
    samples = task.samples(model, task.view(batch, seed=0, epoch=0), lambda ids: " ".join(map(str, ids)))
    for row, sample in enumerate(samples):
        assert sample["source"] == " ".join(map(str, real(batch.tokens, batch.valid, row)))
        assert sample["truth"] == " ".join(map(str, targets_in(batch, row)))
        assert sample["written"]


def test_all_three_ways_measure_the_same() -> None:
    tasks: list[type[Task]] = [SequenceToSequence, SequenceToSequenceInOneRow, SequenceToSequenceAtOnce]
    assert {task.measured_as for task in tasks} == {"SequenceToSequence"}


@pytest.mark.parametrize("way", ["two sides", *WAYS])
def test_figures_of_tests_with_beams_are_distinguished_from_those_without(way: str) -> None:
    make = WAYS[way][0] if way in WAYS else SequenceToSequence
    assert make().measured_how() == "SequenceToSequence"
    assert make(beams=4).measured_how() != make(beams=4, length_penalty=0.6).measured_how() != make().measured_how()
