"""Corpora changed for training: what is read changes, what is predicted is what stood there, and places stay right."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from from_fields import from_fields
from headtohead.data.augmentation.augmentation import Augmentation, Augmentations
from headtohead.data.augmentation.token_noise import SpanMasking, TokenDropping, TokenReplacement
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.row_formats.language_rows import Packing
from headtohead.data.row_formats.token_rows import document_positions
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.task import Task

PACKINGS: tuple[Packing, ...] = ("apart", "stream", "none")
IN_PLACE: list[Callable[[], Augmentation]] = [lambda: TokenReplacement(0.2), lambda: SpanMasking(0.2)]
STEPS: list[Callable[[], Augmentation]] = [*IN_PLACE, lambda: TokenDropping(0.2)]


def corpus(packing: Packing) -> GrammarCorpus:
    return from_fields(
        GrammarCorpus, num_train=200, num_validation=5, num_test=5, context_length=24, packing=packing, tokenizer="char"
    )


def rows(source: GrammarCorpus, *steps: Augmentation, chosen: list[int] | None = None, epoch: int = 0) -> Batch:
    augmented = Augmentations({str(number): step for number, step in enumerate(steps)}).bind(source)
    split = source.split("train")
    return augmented.in_loader(split.batch(np.array(chosen or range(60))), seed=3, epoch=epoch)


def viewed(task: Task, source: GrammarCorpus, batch: Batch) -> Batch:
    return task.bind(source.spec()).view(batch, seed=0, epoch=0)


def real(batch: Batch) -> Tensor:
    return torch.ones_like(batch.tokens, dtype=torch.bool) if batch.valid is None else batch.valid


@pytest.mark.parametrize(("packing", "make"), list(product(PACKINGS, IN_PLACE)))
def test_what_is_predicted_is_what_stood_there(packing: Packing, make: Callable[[], Augmentation]) -> None:
    source = corpus(packing)
    plain, noised = (viewed(CausalLanguageModelling(), source, rows(source, *steps)) for steps in ([], [make()]))
    assert torch.equal(plain.targets, noised.targets) and noised.original_tokens is None
    words = real(plain) & ~source.spec().are_special(plain.tokens)
    changed, trials = int((plain.tokens != noised.tokens).sum()), int(words.sum())
    assert not (plain.tokens != noised.tokens)[~words].any()
    # Spans come together, and a random word may be the word itself: five standard deviations, and those of spans.
    assert abs(changed - 0.2 * trials) < 5 * math.sqrt(3 * trials * 0.2) + 0.2 * trials / source.spec().vocab_size


@pytest.mark.parametrize("make", IN_PLACE)
def test_hidden_tokens_of_a_noised_text_are_found_by_their_own_words(make: Callable[[], Augmentation]) -> None:
    source = corpus("apart")
    plain, batch = rows(source), rows(source, make())
    seen = viewed(MaskedLanguageModelling(), source, batch)
    scored = seen.targets != IGNORED
    assert scored.any() and torch.equal(seen.targets[scored], plain.tokens[scored])
    assert (seen.targets[scored] != batch.tokens[scored]).any() or isinstance(make(), SpanMasking)


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_corpus_with_tokens_left_out_is_a_corpus(packing: Packing) -> None:
    source = corpus(packing)
    plain, batch = rows(source), rows(source, TokenDropping(0.3))
    before, after, special = real(plain), real(batch), source.tokenizer.special
    assert 0.2 < 1 - int(after.sum()) / int(before.sum()) < 0.4
    for row in range(len(batch.rows)):
        rest = iter(plain.tokens[row][before[row]].tolist())
        own = batch.tokens[row][after[row]]
        assert all(token in rest for token in own.tolist()), "a subsequence"
        if packing == "apart":
            indices = document_positions(special.beginnings(own.numpy()[None]))
            assert torch.equal(batch.segments[row][after[row]], indices[0][0])
            assert torch.equal(batch.positions[row][after[row]], indices[1][0])
    seen = viewed(CausalLanguageModelling(), source, batch)
    scored = seen.targets != IGNORED
    assert torch.equal(seen.targets[scored], batch.tokens[:, 1:][scored]) and not (scored & ~after[:, 1:]).any()


@pytest.mark.parametrize(("packing", "make"), list(product(PACKINGS, STEPS)))
def test_a_row_of_a_corpus_follows_from_seed_epoch_and_row_alone(
    packing: Packing, make: Callable[[], Augmentation]
) -> None:
    source = corpus(packing)

    def texts(chosen: list[int], epoch: int = 1) -> list[list[int]]:
        batch = rows(source, make(), TokenDropping(0.1), chosen=chosen, epoch=epoch)
        return [tokens[valid].tolist() for tokens, valid in zip(batch.tokens, real(batch), strict=True)]

    together = texts(list(range(12)))
    assert [texts([row])[0] for row in (7, 2)] == [together[7], together[2]]
    assert together != texts(list(range(12)), epoch=2)
