"""Batches of random tokens and of random pairs, padded to different lengths."""

from __future__ import annotations

from dataclasses import replace

import torch

from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from small_models import VOCAB_SIZE

LANGUAGE = DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=17)
PAIRS = DataSpec(kind="pairs_of_text", vocab_size=VOCAB_SIZE, max_length=12, max_target_length=9)


def language_batch(num_rows: int = 6, length: int = 13, *, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(LANGUAGE.num_special_ids, VOCAB_SIZE, (num_rows, length), generator=generator)
    lengths = torch.randint(2, length + 1, (num_rows,), generator=generator)
    valid = torch.arange(length) < lengths[:, None]
    return Batch(rows=torch.arange(num_rows), tokens=tokens.masked_fill(~valid, 0), valid=valid)


def pair_batch(num_rows: int = 6, *, seed: int = 0) -> Batch:
    source = language_batch(num_rows, 11, seed=seed)
    target = language_batch(num_rows, 8, seed=seed + 1)
    assert target.tokens is not None and target.valid is not None
    bos = torch.full((num_rows, 1), PAIRS.bos_id)
    lengths = target.valid.sum(1)
    # <bos> + target is read, target + <eos> is written.
    valid = torch.cat([torch.ones(num_rows, 1, dtype=torch.bool), target.valid], dim=1)
    targets = torch.cat([target.tokens, torch.zeros(num_rows, 1, dtype=torch.long)], dim=1)
    targets[torch.arange(num_rows), lengths] = PAIRS.eos_id
    targets = targets.masked_fill(~valid, IGNORED)
    decoder_tokens = torch.cat([bos, target.tokens], dim=1)
    return replace(source, decoder_tokens=decoder_tokens, decoder_valid=valid, targets=targets)


def head(batch: Batch, num_rows: int) -> Batch:
    return batch.map(lambda tensor: tensor[:num_rows])


def tail(batch: Batch, num_rows: int) -> Batch:
    return batch.map(lambda tensor: tensor[num_rows:])
