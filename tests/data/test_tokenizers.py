"""Text to tokens and back."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from headtohead.data.data_source import DataError
from headtohead.data.tokenizers import EOS, MASK, PAD, UNK, Tokenizer, TokenizerName, framed, train_tokenizer
from headtohead.data.tokenizers import tokenizer as text_chunks
from headtohead.data.tokenizers import tokenizer as tokenizer_module

TEXTS = ["the cat sat.\n", "", "naïve café – 日本語 🙂\t!", "  two  spaces\n\n\nlines "]
KINDS: tuple[TokenizerName, ...] = ("char", "byte", "bpe", "unigram")
"""The kinds of tokenizers from which every text comes back."""
every_kind = pytest.mark.parametrize("kind", KINDS)


def trained(kind: TokenizerName, texts: list[str] = TEXTS, vocab_size: int = 280) -> Tokenizer:
    return train_tokenizer(kind, texts, vocab_size if kind in ("bpe", "unigram") else None)


@every_kind
def test_text_comes_back_exactly(kind: TokenizerName) -> None:
    tokenizer = trained(kind)
    encoded = tokenizer.encode(TEXTS)
    assert [tokenizer.decode(encoded[row].tolist()) for row in range(len(TEXTS))] == TEXTS


@every_kind
def test_byte_lengths_add_up_to_the_bytes_of_the_text(kind: TokenizerName) -> None:
    tokenizer = trained(kind)
    encoded = tokenizer.encode(TEXTS)
    counted = [int(tokenizer.byte_lengths[encoded[row]].sum()) for row in range(len(TEXTS))]
    assert counted == [len(text.encode()) for text in TEXTS]


@every_kind
def test_special_tokens_come_first_and_stand_for_no_text(kind: TokenizerName) -> None:
    tokenizer = trained(kind)
    assert (PAD, EOS, MASK, UNK) == (0, 2, 3, 4)
    assert tokenizer.byte_lengths[:5].tolist() == [0] * 5 and (tokenizer.byte_lengths[5:] > 0).all()
    assert tokenizer.encode(TEXTS).values.min() >= 5
    assert tokenizer.decode([0, 1, 2]) == "" and tokenizer.decode([3, 4]) == "<mask><unk>"


@every_kind
def test_stored_tokenizer_is_the_same(kind: TokenizerName) -> None:
    tokenizer = trained(kind)
    stored = Tokenizer.from_dict(tokenizer.to_dict())
    assert stored == tokenizer and stored.digest == tokenizer.digest
    assert np.array_equal(stored.encode(TEXTS).values, tokenizer.encode(TEXTS).values)


def test_tokenizers_that_differ_have_different_digests() -> None:
    assert len({trained("char").digest, trained("char", TEXTS[:1]).digest, trained("bpe").digest}) == 3


def test_character_unseen_in_training_is_unknown() -> None:
    tokenizer = trained("char", ["abc"])
    assert tokenizer.vocab_size == 8
    assert tokenizer.encode(["aéc"]).values.tolist() == [5, UNK, 7]


def test_bytes_are_shifted_past_the_special_tokens() -> None:
    tokenizer = trained("byte")
    assert tokenizer.vocab_size == 261 and tokenizer.encode(["A\x00"]).values.tolist() == [70, 5]


def test_pairs_are_merged_by_frequency_up_to_the_size_requested() -> None:
    texts = ["ab ab ab ab xy xy"] * 3
    assert trained("bpe", texts, 262).pieces[-1] == b"ab"
    assert trained("bpe", texts, 263).vocab_size == 263
    assert trained("bpe", texts, 5000).vocab_size < 300


def test_long_text_is_encoded_as_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"line {number}, again and again.\n" for number in range(300))
    tokenizer = trained("bpe", [text], 300)
    whole = tokenizer.encode([text]).values
    monkeypatch.setattr(text_chunks, "_PIECE", 100)
    monkeypatch.setattr(tokenizer_module, "_PIECES_AT_ONCE", 7)
    pieces = tokenizer.encode([text, "", text])
    assert np.array_equal(pieces[0], whole) and np.array_equal(pieces[2], whole) and len(pieces[1]) == 0


def test_long_line_is_encoded_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_chunks, "_PIECE", 16)
    text = "no end of line " * 20
    assert trained("bpe").decode(trained("bpe").encode([text]).values.tolist()) == text


@pytest.mark.process
def test_training_again_in_another_process_gives_the_same_pairs() -> None:
    script = (
        "from headtohead.data.tokenizers import train_tokenizer\n"
        "print(train_tokenizer('bpe', [f'{n} is {n * n}, {n ** 3}' for n in range(500)], 400).digest)"
    )
    here = train_tokenizer("bpe", [f"{n} is {n * n}, {n**3}" for n in range(500)], 400).digest
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert here == there


def test_token_beyond_the_vocabulary_is_shown_by_its_number() -> None:
    assert trained("char", ["ab"]).decode([5, 99]) == "a<99>"


def test_frames_put_a_start_and_an_end_around_every_row() -> None:
    encoded = framed(trained("char", ["abc"]).encode(["ab", "", "c"]))
    assert [encoded[row].tolist() for row in range(3)] == [[1, 5, 6, 2], [1, 2], [1, 7, 2]]


@pytest.mark.parametrize(
    ("kind", "vocab_size", "message"),
    [
        ("word", None, "data.tokenizer=word is unknown: choose one of char, byte, bpe"),
        ("char", 100, "data.vocab_size=100 has no meaning for tokenizer=char"),
        ("bpe", 100, "data.vocab_size=100 is too small for tokenizer=bpe.* give at least 261"),
    ],
)
def test_senseless_tokenizer_is_refused(kind: TokenizerName, vocab_size: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        train_tokenizer(kind, TEXTS, vocab_size)
