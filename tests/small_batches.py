"""Batches of random tokens, pairs, tagged words and questions, padded to different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from headtohead.data.batches.batch import IGNORED, Batch, QuestionText
from headtohead.data.data_source import DataSpec
from small_models import VOCAB_SIZE

LANGUAGE = DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=17)
PAIRS = DataSpec(kind="pairs_of_text", vocab_size=VOCAB_SIZE, max_length=12, max_target_length=9)

WORDS = (
    *("", "", "", "<mask>", "<unk>", "The", "the", "a", "An", "cat", "Cat,", "cat's", "sat.", "on", "mat", "!", "mat!"),
    *("red", "Red", "dog", "dogs", "U.S.", "us", "42", "forty", "-", "two", "Two-", "ran"),
)
"""One per token; some differ in case, articles and punctuation alone."""


def decode(ids: Sequence[int]) -> str:
    return " ".join(WORDS[token] for token in ids if WORDS[token])


TAG_NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TAGS = DataSpec(
    kind="tagged_text",
    vocab_size=VOCAB_SIZE,
    max_length=13,
    num_classes=len(TAG_NAMES),
    class_names=TAG_NAMES,
    class_shares=(0.5, 0.2, 0.1, 0.15, 0.05),
)
QUESTIONS = DataSpec(kind="questions", num_texts=2, vocab_size=VOCAB_SIZE, max_length=20, decode=decode)
SCORES = DataSpec(
    kind="scored_text", vocab_size=VOCAB_SIZE, max_length=20, num_texts=2, score_mean=2.5, score_deviation=1.4
)
NEXT = DataSpec(
    kind="labelled_text",
    vocab_size=VOCAB_SIZE,
    max_length=20,
    num_texts=2,
    num_classes=2,
    class_names=("next", "random"),
    class_shares=(0.6, 0.4),
)


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


def tagged_batch(num_rows: int = 6, *, seed: int = 0) -> Batch:
    """Some words have two pieces, of which the first carries the tag; the first and last token of a row have none."""
    batch = language_batch(num_rows, 13, seed=seed)
    assert batch.tokens is not None and batch.valid is not None
    generator = torch.Generator().manual_seed(seed + 1)
    tags = torch.randint(0, len(TAG_NAMES), batch.tokens.shape, generator=generator)
    is_piece = torch.rand(tags.shape, generator=generator) < 0.2
    is_piece[:, 0] = True
    is_piece[torch.arange(num_rows), batch.valid.sum(1) - 1] = True
    return replace(batch, targets=tags.masked_fill(is_piece | ~batch.valid, IGNORED))


def two_texts(num_rows: int = 6, *, seed: int = 0) -> tuple[Batch, torch.Tensor]:
    """[bos] first [eos] second [eos] of different lengths, and where the second begins."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (num_rows, 2), generator=generator)
    begins, ends = lengths[:, 0] + 2, lengths.sum(1) + 3
    positions = torch.arange(int(ends.max())).expand(num_rows, -1)
    tokens = torch.randint(LANGUAGE.num_special_ids, VOCAB_SIZE, positions.shape, generator=generator)
    tokens[:, 0] = LANGUAGE.bos_id
    tokens[(positions == begins[:, None] - 1) | (positions == ends[:, None] - 1)] = LANGUAGE.eos_id
    valid = positions < ends[:, None]
    token_types = ((positions >= begins[:, None]) & valid).long()
    batch = Batch(
        rows=torch.arange(num_rows), tokens=tokens.masked_fill(~valid, 0), valid=valid, token_types=token_types
    )
    return batch, begins


def question_batch(num_rows: int = 6, *, seed: int = 0) -> Batch:
    """Every question in a row of its own; some have a second answer."""
    batch, begins = two_texts(num_rows, seed=seed)
    assert batch.valid is not None and batch.tokens is not None
    room = batch.valid.sum(1) - 1 - begins
    drawn = torch.rand(num_rows, 2, generator=torch.Generator().manual_seed(seed + 1))
    targets = begins[:, None] + (drawn * room[:, None]).long().sort(dim=1).values
    options = tuple(
        _requested(row, tokens[begin : begin + length], begin, span)
        for row, (tokens, begin, length, span) in enumerate(
            zip(batch.tokens.tolist(), begins.tolist(), room.tolist(), targets.tolist(), strict=True)
        )
    )
    return replace(batch, targets=targets, questions=options)


def _requested(row: int, context: list[int], first: int, span: list[int]) -> QuestionText:
    ends = [len(decode(context[: position + 1])) for position in range(len(context))]
    answers = [decode(context[span[0] - first : span[1] + 1 - first])]
    if row % 3 == 0:
        answers.append(decode(context[-2:]))
    return QuestionText(row, f"q{row}", decode(context), tuple(answers), first, np.array([0, *ends]))


def sentence_pair_batch(num_rows: int = 6, *, seed: int = 0) -> Batch:
    labels = torch.randint(0, 2, (num_rows,), generator=torch.Generator().manual_seed(seed + 1))
    return replace(two_texts(num_rows, seed=seed)[0], targets=labels)


def scored_batch(num_rows: int = 6, *, seed: int = 0) -> Batch:
    """Pairs with grades from 0 to 5 in steps of a fifth, so that some are alike."""
    drawn = torch.randint(0, 26, (num_rows,), generator=torch.Generator().manual_seed(seed + 1))
    return replace(two_texts(num_rows, seed=seed)[0], targets=drawn.double() / 5)


def answered_batch(num_rows: int = 6, *, seed: int = 0) -> Batch:
    """Rows with targets of their own at up to three places."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(LANGUAGE.num_special_ids, VOCAB_SIZE, (num_rows, 9), generator=generator)
    answers = torch.randint(LANGUAGE.num_special_ids, VOCAB_SIZE, (num_rows, 9), generator=generator)
    options = torch.zeros(num_rows, 9, dtype=torch.bool)
    for row in range(num_rows):
        options[row, torch.randperm(9, generator=generator)[: 1 + row % 3]] = True
    return Batch(rows=torch.arange(num_rows), tokens=tokens, targets=answers.masked_fill(~options, IGNORED))


def head(batch: Batch, num_rows: int) -> Batch:
    return part(batch, 0, num_rows)


def tail(batch: Batch, num_rows: int) -> Batch:
    return part(batch, num_rows, batch.num_samples)


def part(batch: Batch, start: int, stop: int) -> Batch:
    """Some of its rows."""
    return batch.chosen(torch.arange(start, stop))
