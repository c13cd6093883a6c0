"""Tokenizers learned from texts, of every kind.

The same texts give the same tokenizer on every machine, but for unigram: the library sums over words in an order that
differs from one process to the next, and pieces that are as good as each other may change places. What was learned is
kept (learning.py), and every run keeps its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, get_args

from headtohead.data.bars import Tell, bar
from headtohead.data.contracts import DataError
from headtohead.data.tokenizers.cutting import cut
from headtohead.data.tokenizers.given import is_given
from headtohead.data.tokenizers.letters import NUM_BYTES, letter_bytes
from headtohead.data.tokenizers.special import SPECIAL_TOKENS
from headtohead.data.tokenizers.tokenizer import Tokenizer, TokenizerKind, TokenizerName
from headtohead.data.tokenizers.wordpiece import SMALLEST as SMALLEST_WORDPIECE
from headtohead.data.tokenizers.wordpiece import train_wordpiece

DEFAULT_SIZE = 512
_SMALLEST: dict[str, int] = {
    "bpe": len(SPECIAL_TOKENS) + NUM_BYTES,
    "unigram": len(SPECIAL_TOKENS) + NUM_BYTES,
    "wordpiece": SMALLEST_WORDPIECE,
}
"""Of the kinds whose size is chosen."""
_LONG = 2**23
"""Characters from which on learning takes so long that a bar is drawn, and so much memory that it is given back."""
_TAKEN = 2**13
"""Characters that the library takes at once, of which it takes 256 before it looks at any."""
_DIGITS = 4
"""Of the scores of a unigram model that are kept: further ones differ from one training to the next."""
_NEVER = -1e6
"""The score of a special token, so that its name in a text is read as text."""


def check_tokenizer(kind: TokenizerName, vocab_size: int | None) -> None:
    """The choices of a tokenizer, refused before any text is read."""
    kinds = get_args(TokenizerKind)
    if kind not in kinds and not is_given(kind):
        raise DataError(
            f"data.tokenizer={kind} is unknown: choose one of {', '.join(kinds[:-1])}, a tokenizer.json or its folder "
            f"by its path, or one of the hub, hf:NAME."
        )
    if kind not in (*_SMALLEST, "published") and vocab_size is not None:
        raise DataError(
            f"data.vocab_size={vocab_size} has no meaning for tokenizer={kind}, which takes its own: "
            f"leave it null, or use data.tokenizer={' or '.join(_SMALLEST)}."
        )
    if vocab_size is not None and vocab_size < _SMALLEST.get(kind, 0):
        start = "letters" if kind == "wordpiece" else f"{NUM_BYTES} bytes"
        raise DataError(
            f"data.vocab_size={vocab_size} is too small for tokenizer={kind}, which starts from {start} and "
            f"{len(SPECIAL_TOKENS)} special tokens: give at least {_SMALLEST[kind]}."
        )


def train_tokenizer(kind: TokenizerName, texts: Iterable[str], vocab_size: int | None = None) -> Tokenizer:
    """Learn from these texts alone; where the size is chosen, at most so many tokens, fewer where little recurs."""
    check_tokenizer(kind, vocab_size)
    special = (b"",) * len(SPECIAL_TOKENS)
    if kind == "byte":
        return Tokenizer("byte", special + tuple(bytes([value]) for value in range(NUM_BYTES)))
    if kind == "char":
        alphabet: set[str] = set()
        for text in texts:
            alphabet.update(text)
        return Tokenizer("char", special + tuple(sign.encode() for sign in sorted(alphabet)))
    if kind not in _SMALLEST:
        raise DataError(
            "data.tokenizer=published comes with a checkpoint, init_from=hf:NAME; without one choose "
            f"{', '.join(get_args(TokenizerKind)[:-1])}, a path or hf:NAME."
        )
    # Said once, so that loader processes forked later do not warn about it.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    size, length = vocab_size or DEFAULT_SIZE, sum(map(len, texts))
    if length < _LONG:
        return _learned(kind, texts, size, _silent)
    with bar(f"learning {size:,} tokens of a {kind} tokenizer", length, "characters", then="choosing") as tell:
        tokenizer = _learned(kind, texts, size, tell)
    _give_back_memory()
    return tokenizer


def _learned(kind: TokenizerName, texts: Iterable[str], size: int, tell: Tell) -> Tokenizer:
    if kind == "wordpiece":
        return train_wordpiece(texts, size, tell)
    return _train_on_bytes(kind == "unigram", texts, size, tell)


def _give_back_memory() -> None:
    """A gigabyte for a million different words is free again, but glibc keeps it for this process until it is told."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # of another C library, which has no such function
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def _silent(_: int) -> None:
    """Nobody is told."""


def _told(texts: Iterable[str], tell: Tell) -> Iterator[str]:
    """The texts in pieces, as they are taken."""
    for text in texts:
        for piece in cut(text, _TAKEN):
            yield piece
            tell(len(piece))


def _train_on_bytes(is_unigram: bool, texts: Iterable[str], vocab_size: int, tell: Tell) -> Tokenizer:
    """Pieces of UTF-8, so that nothing is unknown and every text comes back: pairs merged by frequency, or pieces that
    make the texts likeliest (Kudo 2018, https://arxiv.org/abs/1804.10959)."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers

    library = Library(models.Unigram() if is_unigram else models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    special, alphabet = list(SPECIAL_TOKENS), pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = (
        trainers.UnigramTrainer(
            vocab_size=vocab_size,
            special_tokens=special,
            initial_alphabet=alphabet,
            unk_token="<unk>",
            show_progress=False,
        )
        if is_unigram
        else trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    )
    library.train_from_iterator(_told(texts, tell), trainer=trainer)
    if is_unigram:
        library = Library.from_str(_in_order(library.to_str()))
    by_id = sorted(library.get_vocab().items(), key=lambda item: item[1])
    byte_of = letter_bytes()
    pieces = [bytes(byte_of[letter] for letter in token) for token, _ in by_id[len(SPECIAL_TOKENS) :]]
    kind: TokenizerKind = "unigram" if is_unigram else "bpe"
    return Tokenizer(kind, (b"",) * len(SPECIAL_TOKENS) + tuple(pieces), library.to_str())


def _in_order(description: str) -> str:
    """A unigram model whose pieces stand in the order of their rounded scores: sums in another order differ in their
    last digits."""
    told = json.loads(description)
    vocabulary = told["model"]["vocab"]
    special = [[token, _NEVER] for token, _ in vocabulary[: len(SPECIAL_TOKENS)]]
    rounded = [[piece, round(score, _DIGITS)] for piece, score in vocabulary[len(SPECIAL_TOKENS) :]]
    told["model"]["vocab"] = [*special, *sorted(rounded, key=lambda item: (-item[1], item[0]))]
    return json.dumps(told, ensure_ascii=False)
