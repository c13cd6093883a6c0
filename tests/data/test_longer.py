"""Test rows that are several times as long: made where the data can, refused with the reason where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from data.small_sources import FEW
from from_fields import from_fields
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataError, DataSource
from headtohead.data.generated.dyck import Dyck
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.generated.group_problems import ModularAddition, WordProblem
from headtohead.data.generated.in_context_recall import FuzzyRecall, NoisyRecall
from headtohead.data.generated.listops import ListOps
from headtohead.data.generated.number_words import NumberWords
from headtohead.data.generated.recall_problems import AssociativeRecall, Induction, Memorization
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.generated.string_rewriting import Copy, RandomTokens, Reverse, SelectiveCopy, Sort
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.text_files import TextFiles

Made = Callable[[], DataSource]
ROWS: dict[str, Made] = {
    "associative_recall": partial(from_fields, AssociativeRecall, **FEW, length=32, num_pairs=4),
    "copy": partial(from_fields, Copy, **FEW, length=6),
    "dyck": partial(from_fields, Dyck, **FEW, length=12),
    "dyck_labelled": partial(from_fields, Dyck, **FEW, length=12, form="labelled"),
    "fuzzy_recall": partial(from_fields, FuzzyRecall, **FEW, length=24, num_pairs=3, num_symbols=8),
    "induction": partial(from_fields, Induction, **FEW, length=12),
    "memorization": partial(from_fields, Memorization, **FEW, length=12, num_facts=9),
    "noisy_recall": partial(from_fields, NoisyRecall, **FEW, length=24, num_pairs=3, num_symbols=8),
    "random_tokens": partial(from_fields, RandomTokens, **FEW, length=8, num_symbols=7),
    "reverse_pairs": partial(from_fields, Reverse, **FEW, length=8, min_length=3, form="pairs"),
    "selective_copy": partial(from_fields, SelectiveCopy, **FEW, length=10, num_copied=3),
    "sort": partial(from_fields, Sort, **FEW, length=7),
    "word_problem": partial(from_fields, WordProblem, **FEW, group="S_3", length=7),
}
TEXT: dict[str, Made] = {
    "grammar_lm": partial(from_fields, GrammarCorpus, **FEW, context_length=8, packing="stream"),
}
CANNOT: dict[str, tuple[Made, str]] = {
    "modular_addition": (partial(ModularAddition, modulus=13), "as long as they are"),
    "sentence_grammar": (partial(from_fields, SentenceGrammar, **FEW), "as long as they are"),
    "number_words": (
        partial(from_fields, NumberWords, num_train=50, num_validation=5, num_test=5),
        "words that nobody learns",
    ),
    "own_length": (partial(from_fields, Copy, **FEW, length=6, test_length=9), r"data\.test_length=9"),
    "apart": (
        partial(from_fields, GrammarCorpus, **FEW, context_length=64),
        r"data\.packing=apart .* use data\.packing=stream",
    ),
    "listops": (partial(from_fields, ListOps, **FEW, length=48), "hardly any expression"),
}


def whole(source: DataSource) -> Batch:
    rows = source.split("test")
    return rows.batch(np.arange(len(rows)))


def lengths(batch: Batch) -> np.ndarray:
    assert batch.tokens is not None
    valid = torch.ones_like(batch.tokens, dtype=torch.bool) if batch.valid is None else batch.valid
    return valid.sum(1).numpy()


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_as_many_and_longer_by_the_multiple(name: str) -> None:
    source = ROWS[name]()
    usual, longer = whole(source), whole(source.longer(4))
    assert longer.num_samples == usual.num_samples == FEW["num_test"]
    framed = 2 if name == "dyck_labelled" else 0  # its start and end
    one = lengths(usual).max() - framed
    spare = 3 if "dyck" in name else 0  # a word of brackets is read up to its last but one
    assert 4 * one - spare <= lengths(longer).max() - framed <= 4 * one + spare or name == "selective_copy"
    assert lengths(longer).min() > lengths(usual).min()
    assert (lengths(longer) > lengths(usual).max()).mean() > 0.7


@pytest.mark.parametrize("name", ROWS)
def test_targets_of_longer_rows_stand_where_tokens_are(name: str) -> None:
    batch = whole(ROWS[name]().longer(2))
    if batch.targets is not None and batch.targets.ndim == 2 and batch.decoder_tokens is None:
        assert batch.valid is None or not (batch.targets[~batch.valid] != IGNORED).any()
        assert (batch.targets != IGNORED).any(1).all()


@pytest.mark.parametrize("name", [*ROWS, *TEXT])
def test_the_same_longer_rows_come_whenever_they_are_requested_and_have_a_hash_of_their_own(name: str) -> None:
    make = {**ROWS, **TEXT}[name]
    source = make()
    before = source.spec().data_hash
    first, again = source.longer(2), make().longer(2)
    assert torch.equal(whole(first).tokens, whole(again).tokens)  # type: ignore[arg-type]
    hashes = [before, first.spec().data_hash, source.longer(4).spec().data_hash]
    assert len(set(hashes)) == 3 and first.spec().data_hash == again.spec().data_hash
    assert source.spec().data_hash == before and whole(source).num_samples
    assert first.spec().vocab_size == source.spec().vocab_size


def test_answers_are_right_at_any_length() -> None:
    batch = whole(from_fields(WordProblem, **FEW, group="Z_2", length=12).longer(8))
    assert batch.tokens is not None and batch.targets is not None
    first = int(batch.tokens.min())
    parity = (batch.tokens - first).cumsum(1) % 2
    assert batch.tokens.shape[1] == 96 and torch.equal(batch.targets - first, parity)


def test_text_is_cut_again_into_longer_rows_of_the_same_tokens() -> None:
    source = TEXT["grammar_lm"]()
    usual, longer = whole(source).tokens, whole(source.longer(4)).tokens
    assert usual is not None and longer is not None and longer.shape[1] == 4 * 8 + 1
    assert torch.equal(longer[0], torch.cat([usual[0], *(row[1:] for row in usual[1:4])]))


def test_a_table_of_texts_is_cut_again_too(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(f'{{"text": "the bird number {row} sings"}}\n' for row in range(300)))
    source = from_fields(
        JsonFiles, path=str(file), text_column="text", context_length=8, packing="stream", tokenizer="char"
    )
    tokens = whole(source.longer(2)).tokens
    assert tokens is not None and tokens.shape[1] == 17


def test_long_documents_may_be_read_apart(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("a line of a long text\n" * 200)
    source = from_fields(TextFiles, path=str(file), context_length=16, validation_share=0.2, test_share=0.2)
    tokens = whole(source.longer(4)).tokens
    assert tokens is not None and tokens.shape[1] == 65


@pytest.mark.parametrize("name", CANNOT)
def test_what_has_no_longer_rows_says_why(name: str) -> None:
    make, reason = CANNOT[name]
    with pytest.raises(DataError, match=reason):
        make().longer(8).split("test")
