"""Corpora by weights: shares at every step, the same rows for any number of devices, resumed where they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from from_fields import from_fields
from headtohead.data.batches.row_order import order_of
from headtohead.data.data_source import DataError
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.sources.mixed_corpus import MixedCorpus

FEW = {"num_train": 40, "num_validation": 6, "num_test": 6, "context_length": 16, "tokenizer": "char"}


def mixed(first: float = 3.0, second: float = 1.0) -> MixedCorpus:
    sources = {name: from_fields(GrammarCorpus, **FEW, seed=seed) for seed, name in enumerate(("first", "second"))}
    return MixedCorpus(sources=sources, weights={"first": first, "second": second}, batch_size=8)


@pytest.mark.parametrize("weights", [(3.0, 1.0), (0.7, 0.2), (1.0, 100.0)])
def test_every_stretch_of_rows_has_the_shares_of_the_weights(weights: tuple[float, float]) -> None:
    data = mixed(*weights)
    order = order_of(data.split("train"), batch_size=8, seed=0)
    share = weights[0] / sum(weights)
    of_first = 0
    for step in range(60):
        of_first += int((order.step(step)[1] % 2 == 0).sum())
        assert abs(of_first - share * 8 * (step + 1)) <= 1


def test_rows_are_those_of_their_sources_and_come_round_again() -> None:
    data = mixed()
    split = data.split("train")
    order = order_of(split, batch_size=8, seed=0)
    sources = [source.split("train") for source in data.sources.values()]
    seen: list[list[int]] = [[], []]
    epochs = []
    for step in range(160):
        epoch, rows = order.step(step)
        epochs.append(epoch)
        batch = split.batch(rows)
        assert batch.tokens is not None and batch.rows.tolist() == rows.tolist()
        for number, tokens in zip(rows, batch.tokens, strict=True):
            index, source = divmod(int(number), 2)
            own = sources[source].batch(np.array([index])).tokens
            assert own is not None and torch.equal(tokens, own[0])
            seen[source].append(index)
    assert epochs == sorted(epochs) and epochs[-1] > 0
    for source, indices in enumerate(seen):
        once = len(sources[source])
        assert len(set(indices[: once + 8])) == min(once, len(set(indices))), "none twice before all, to within a batch"


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_steps_are_the_same_for_any_number_of_devices_and_after_any_start(devices: int) -> None:
    whole = order_of(mixed().split("train"), batch_size=8, seed=5)
    resumed = order_of(mixed().split("train"), batch_size=8, seed=5)
    for step in (17, 18, 19):
        parts = [resumed.step(step, rank=rank, world_size=devices)[1] for rank in range(devices)]
        assert np.concatenate(parts).tolist() == whole.step(step)[1].tolist()


def test_held_out_rows_are_all_of_all_sources() -> None:
    data = mixed()
    split = data.split("validation")
    parts = [source.split("validation") for source in data.sources.values()]
    assert len(split) == sum(map(len, parts))
    batch = split.batch(np.arange(len(split))[::-1].copy())
    expected = [part.batch(np.arange(len(part))).tokens for part in parts]
    assert batch.tokens is not None
    assert torch.equal(batch.tokens.flip(0), torch.cat([tokens for tokens in expected if tokens is not None]))


def test_what_cannot_be_mixed_is_refused_by_name() -> None:
    one = from_fields(GrammarCorpus, **FEW, seed=0)
    with pytest.raises(DataError, match="fewer than two"):
        MixedCorpus(sources={"first": one})
    with pytest.raises(DataError, match="give each source its weight"):
        MixedCorpus(sources={"a": one, "b": one}, weights={"a": 1.0})
    with pytest.raises(DataError, match=r"data.weights.b=0.0 must be above 0"):
        MixedCorpus(sources={"a": one, "b": one}, weights={"a": 1.0, "b": 0.0})
    longer = from_fields(GrammarCorpus, **{**FEW, "context_length": 32}, seed=0)
    with pytest.raises(DataError, match="same context_length and tokenizer"):
        MixedCorpus(sources={"a": one, "b": longer}).spec()
