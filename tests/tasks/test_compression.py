"""A row written again from its last vector: what is scored, what the head may know, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from from_fields import from_fields
from headtohead.architectures.vocabulary_heads import Reconstruction
from headtohead.components.norms import RmsNorm
from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import DataError
from headtohead.data.generated.string_rewriting import RandomTokens
from headtohead.errors import UsageError
from headtohead.tasks.compression import Compression
from small_batches import LANGUAGE, language_batch
from small_models import redraw, small_model

pytestmark = pytest.mark.shapes


def test_every_real_token_is_asked_back_at_its_own_position() -> None:
    task = Compression().bind(LANGUAGE)
    batch = language_batch(6)
    view = task.view(batch, seed=0, epoch=0)
    assert batch.tokens is not None and batch.valid is not None and view.targets is not None
    counted = batch.valid & ~LANGUAGE.are_special(batch.tokens)
    assert torch.equal(view.targets[counted], batch.tokens[counted])
    assert bool((view.targets[~counted] == IGNORED).all()) and bool((~counted).any())


def test_logits_know_a_row_by_its_last_real_vector_alone() -> None:
    head = redraw(Reconstruction(8, 11, norm=RmsNorm).double())
    valid = torch.arange(5) < torch.tensor([5, 3])[:, None]
    features = torch.randn(2, 5, 8, dtype=torch.float64)
    other = torch.randn(2, 5, 8, dtype=torch.float64)
    other[0, 4], other[1, 2] = features[0, 4], features[1, 2]
    torch.testing.assert_close(head(features, valid)[valid], head(other, valid)[valid])
    assert (head(features, valid)[0, 0] - head(features, valid)[0, 1]).abs().max() > 1e-3
    short = head(features[1:, :3])
    torch.testing.assert_close(head(features, valid)[1:, :3], short)


@pytest.mark.slow
def test_a_small_model_learns_to_write_few_rows_again() -> None:
    """Four rows of four symbols: 1.0 from 150 steps on, with any seed of the data that was tried; chance is 0.25."""
    torch.manual_seed(0)
    source = from_fields(RandomTokens, num_train=4, num_validation=1, num_test=1, length=5, num_symbols=4)
    task = Compression().bind(source.spec())
    model = small_model("decoder_only", head=task.head, vocab_size=9, d_model=32)
    batch = task.view(source.split("train").batch(torch.arange(4).numpy()), seed=0, epoch=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(200):
        optimizer.zero_grad()
        task.loss(model, batch).mean.backward()
        optimizer.step()
    task.measure("test", model.eval(), batch)
    assert task.results("test")["token_accuracy"] > 0.8
    (sample, *_) = task.samples(model, batch, source.decode)
    assert sample["text"].endswith("<eos>") and sample["written"].endswith("<eos>")


def test_what_cannot_be_written_again_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"answers of its own: choose plain rows, such as data=random_tokens"):
        Compression().bind(replace(LANGUAGE, num_scored=3))
    batch = language_batch(2)
    assert batch.tokens is not None
    with pytest.raises(UsageError, match=r"set data\.packing=none or stream"):
        Compression().bind(LANGUAGE).view(replace(batch, segments=torch.zeros_like(batch.tokens)), seed=0, epoch=0)
    with pytest.raises(UsageError, match=r"model\.d_model=7 is odd"):
        Reconstruction(7, 11, norm=RmsNorm)
    with pytest.raises(DataError, match=r"makes fewer than twice as many rows as are requested, 22000"):
        from_fields(RandomTokens, length=4, num_symbols=15)
