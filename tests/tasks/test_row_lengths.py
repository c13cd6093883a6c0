"""The tokens and the work of a batch do not depend on how it is divided."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from headtohead.architectures.architecture import InputSize
from headtohead.architectures.ledger import RowFlops, ledger
from headtohead.components.mixers.attention.memory_attention import BahdanauAttention, LuongAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.data.batches.batch import Batch
from small_models import small_model
from task_cases import NUM_ROWS, TASKS, TaskCase


def shortened(batch: Batch) -> Batch:
    """Return the rows as a loader does: padded to the longest of them."""
    if batch.tokens is None or batch.valid is None:
        return batch
    longest = int(batch.valid.sum(1).max())
    width = batch.tokens.shape[1]
    return batch.map(lambda held: held[:, :longest] if held.ndim == 2 and held.shape[1] == width else held)


def pieces(case: TaskCase, sizes: list[int]) -> list[Batch]:
    task, whole = case.task(), case.batch()
    parts = torch.arange(NUM_ROWS).split(sizes)
    return [task.training_view(shortened(whole.chosen(part)), seed=0, epoch=0) for part in parts]


@pytest.mark.parametrize("name", TASKS)
def test_tokens_and_flops_of_a_batch_are_those_of_its_parts(name: str) -> None:
    case, result = TASKS[name], set()
    flops = RowFlops(case.model())
    for sizes in ([NUM_ROWS], [2, 4], [3, 3], [1] * NUM_ROWS):
        parts = pieces(case, sizes)
        work = sum(flops.of(Counter(part.lengths))[0] for part in parts)
        result.add((sum(part.num_tokens for part in parts), work))
    assert len(result) == 1, result


def test_padding_is_distinguished() -> None:
    flops = RowFlops(small_model("decoder_only"))
    whole, none = flops.of({(12, 0): 3}, scored=5)
    own, padding = flops.of({(12, 0): 1, (4, 0): 2}, scored=5)
    assert none == 0 and padding > 0 and own + padding == whole


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_flops_of_a_row_are_the_ledgers_at_its_length(family: str) -> None:
    model = small_model(family)
    for length, scored in ((1, 0), (7, 3), (11, 11)):
        expected = ledger(model, InputSize(length=length, scored=scored)).totals.training_flops_per_sample
        assert RowFlops(model).of({(length, 0): 1}, scored=scored) == (expected, 0)


@pytest.mark.parametrize("cross", [SoftmaxCrossAttention, BahdanauAttention, LuongAttention])
def test_flops_of_a_pair_follow_from_those_of_few_sizes(cross: Any) -> None:
    model = small_model("encoder_decoder", cross=cross)
    for length, decoder_length in ((1, 1), (9, 5), (3, 11)):
        size = InputSize(length=length, decoder_length=decoder_length, scored=2)
        expected = ledger(model, size).totals.training_flops_per_sample
        assert RowFlops(model).of({(length, decoder_length): 1}, scored=2) == (expected, 0)
