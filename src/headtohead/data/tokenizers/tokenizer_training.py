"""Tokenizers learned from texts, of every kind.

The same texts give the same tokenizer on every machine, except for unigram: the library sums over words in an order
that differs from one process to the next, and pieces with equal scores may change places. Learned tokenizers are cached
(tokenizer_cache.py), and every run stores its own.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

import numpy as np

from headtohead.data.cache.parallel_map import ReportProgress, progress_bar
from headtohead.data.data_source import DataError
from headtohead.data.tokenizers.published_tokenizer import NUM_BYTES, letter_bytes
from headtohead.data.tokenizers.special_tokens import SPECIAL_TOKENS
from headtohead.data.tokenizers.tokenizer import (
    Tokenizer,
    TokenizerKind,
    TokenizerName,
    code_points,
    cut,
    let_library_use_threads,
)
from headtohead.data.tokenizers.tokenizer_choice import is_named

# WordPiece as BERT's (Devlin et al. 2019, https://arxiv.org/abs/1810.04805): small letters without accents, words cut
# at blanks and punctuation, and pieces that continue a word marked by ##.
#
# What it loses: capitals, accents, control characters, and how many blanks stood where; a word with a letter that the
# texts did not have, or hardly ever, is unknown as a whole.


SMALLEST = 64
"""Tokens: the special ones, and some letters at the beginning of words and within them."""
_WITHIN = "##"
_FIRST_LETTER = 0xF0000
"""The start of the private use planes, where letters at the beginning of words and within them become letters of their
own."""
_SHARE_OF_LETTERS = 0.5
"""The letters' share of the vocabulary; the rarest of more letters are left out."""


def train_wordpiece(texts: Iterable[str], vocab_size: int, report: ReportProgress) -> Tokenizer:
    """Learn WordPiece by merging pairs by frequency; each word is learned from as often as it occurs, spelt in letters
    that mark their position, so that ties are broken by letters and never by chance."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    library = Library(models.WordPiece(unk_token="<unk>", vocab={"<unk>": 0}))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    room = vocab_size - len(SPECIAL_TOKENS)
    letters = _letters(texts, library, int(_SHARE_OF_LETTERS * room / 2))
    words = _words(texts, library, report)
    learner = Library(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    numbers = {letter: number for number, letter in enumerate(letters)}
    signs = [chr(_FIRST_LETTER + number) for number in range(2 * len(letters))]
    learner.train_from_iterator(
        _lines(words, numbers),
        trainers.BpeTrainer(vocab_size=room, initial_alphabet=signs, show_progress=False),
    )
    vocabulary = sorted(learner.get_vocab().items(), key=lambda item: item[1])
    tokens = [*SPECIAL_TOKENS, *(_spelt(token, letters) for token, _ in vocabulary)]
    library.model = models.WordPiece(
        vocab={token: number for number, token in enumerate(tokens)},
        unk_token="<unk>",
        continuing_subword_prefix=_WITHIN,
    )
    library.decoder = decoders.WordPiece(prefix=_WITHIN, cleanup=False)
    library.add_special_tokens(list(SPECIAL_TOKENS))
    pieces = [token.removeprefix(_WITHIN).encode() for token in tokens[len(SPECIAL_TOKENS) :]]
    return Tokenizer("wordpiece", (b"",) * len(SPECIAL_TOKENS) + tuple(pieces), library.to_str())


def _letters(texts: Iterable[str], library: Any, most: int) -> list[str]:
    """Return the most frequent letters, normalised, in the order of their code points."""
    counts: Counter[str] = Counter()
    for text in texts:
        points, numbers = np.unique(code_points(text), return_counts=True)
        for point, number in zip(points.tolist(), numbers.tolist(), strict=True):
            counts[chr(point)] += number
    normalised: Counter[str] = Counter()
    for sign, number in counts.items():
        for letter in "".join(library.normalizer.normalize_str(sign).split()):
            normalised[letter] += number
    frequent = sorted(normalised, key=lambda letter: (-normalised[letter], letter))[:most]
    return sorted(frequent)


def _words(texts: Iterable[str], library: Any, report: ReportProgress) -> Counter[str]:
    words: Counter[str] = Counter()
    for text in texts:
        for piece in cut(text):
            normalised = library.normalizer.normalize_str(piece)
            words.update(word for word, _ in library.pre_tokenizer.pre_tokenize_str(normalised))
            report(len(piece))
    return words


def _lines(words: Mapping[str, int], numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield each word as often as it occurs, letters within it as symbols of their own; words with a rare letter are
    skipped."""
    for word in sorted(words):
        if all(letter in numbers for letter in word):
            first, *rest = (numbers[letter] for letter in word)
            signs = [first, *(len(numbers) + number for number in rest)]
            yield " ".join([_signs(signs)] * words[word])


def _signs(numbers: Sequence[int]) -> str:
    return "".join(chr(_FIRST_LETTER + number) for number in numbers)


def _spelt(token: str, letters: Sequence[str]) -> str:
    numbers = [ord(sign) - _FIRST_LETTER for sign in token]
    word = "".join(letters[number % len(letters)] for number in numbers)
    return word if numbers[0] < len(letters) else f"{_WITHIN}{word}"


DEFAULT_SIZE = 512
_LARGEST_DEFAULT = 32_768
_LETTERS_OF_THE_DEFAULT = 50_000
"""Texts for which the smallest vocabulary is right; of four times as many letters, a token of twice as large a one
recurs as often."""


def size_for(letters: int) -> int:
    """Return the vocabulary for texts of so many letters: a power of two that grows with their root, 512 for a chapter,
    2,048 for a book of a million letters."""
    requested = DEFAULT_SIZE * (letters / _LETTERS_OF_THE_DEFAULT) ** 0.5
    size = DEFAULT_SIZE
    while 2 * size <= min(requested, _LARGEST_DEFAULT):
        size *= 2
    return size


_SMALLEST: dict[str, int] = {
    "bpe": len(SPECIAL_TOKENS) + NUM_BYTES,
    "unigram": len(SPECIAL_TOKENS) + NUM_BYTES,
    "wordpiece": SMALLEST,
}
"""The smallest vocabulary of the kinds whose size is chosen."""
_LONG = 2**23
"""Characters from which on learning takes so long that a bar is drawn, and so much memory that it is given back."""
_TAKEN = 2**13
"""Characters that the library takes at once, of which it takes 256 before it looks at any."""
_DIGITS = 4
"""The digits of a unigram model's scores that are stored: further ones differ from one training to the next."""
_NEVER = -1e6
"""The score of a special token, so that its name in a text is read as text."""


def usual_size(kind: TokenizerName) -> int | None:
    """Return the vocabulary of texts whose few words are known; None for a tokenizer that takes its own."""
    return DEFAULT_SIZE if kind in _SMALLEST else None


def check_tokenizer(kind: TokenizerName, vocab_size: int | None) -> None:
    """Check the choices of a tokenizer before any text is read."""
    kinds = get_args(TokenizerKind)
    if kind not in kinds and not is_named(kind):
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
    """Learn a tokenizer from these texts alone; where the size is chosen, at most so many tokens, fewer where little
    recurs, and as many as fit the texts where no number is given."""
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
    let_library_use_threads()
    length = sum(map(len, texts))
    size = vocab_size or size_for(length)
    if length < _LONG:
        return _train(kind, texts, size, _silent)
    with progress_bar(
        f"learning {size:,} tokens of a {kind} tokenizer", length, "characters", then="choosing"
    ) as report:
        tokenizer = _train(kind, texts, size, report)
    _give_back_memory()
    return tokenizer


def _train(kind: TokenizerName, texts: Iterable[str], size: int, report: ReportProgress) -> Tokenizer:
    if kind == "wordpiece":
        return train_wordpiece(texts, size, report)
    return _train_on_bytes(kind == "unigram", texts, size, report)


def _give_back_memory() -> None:
    """Return freed memory to the system: glibc holds on to a gigabyte for a million different words until it is
    told."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # of another C library, which has no such function
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def _silent(_: int) -> None:
    """Report nothing."""


def _reported(texts: Iterable[str], report: ReportProgress) -> Iterator[str]:
    """Yield the texts in pieces, as they are consumed, and report them."""
    for text in texts:
        for piece in cut(text, _TAKEN):
            yield piece
            report(len(piece))


def _train_on_bytes(is_unigram: bool, texts: Iterable[str], vocab_size: int, report: ReportProgress) -> Tokenizer:
    """Learn pieces of UTF-8, so that nothing is unknown and every text can be restored: pairs merged by frequency, or
    pieces that make the texts likeliest (Kudo 2018, https://arxiv.org/abs/1804.10959)."""
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
    library.train_from_iterator(_reported(texts, report), trainer=trainer)
    if is_unigram:
        library = Library.from_str(_in_order(library.to_str()))
    by_id = sorted(library.get_vocab().items(), key=lambda item: item[1])
    byte_of = letter_bytes()
    pieces = [bytes(byte_of[letter] for letter in token) for token, _ in by_id[len(SPECIAL_TOKENS) :]]
    kind: TokenizerKind = "unigram" if is_unigram else "bpe"
    return Tokenizer(kind, (b"",) * len(SPECIAL_TOKENS) + tuple(pieces), library.to_str())


def _in_order(description: str) -> str:
    """Sort the pieces of a unigram model by their rounded scores: sums in another order differ in their last digits."""
    parsed = json.loads(description)
    vocabulary = parsed["model"]["vocab"]
    special = [[token, _NEVER] for token, _ in vocabulary[: len(SPECIAL_TOKENS)]]
    rounded = [[piece, round(score, _DIGITS)] for piece, score in vocabulary[len(SPECIAL_TOKENS) :]]
    parsed["model"]["vocab"] = [*special, *sorted(rounded, key=lambda item: (-item[1], item[0]))]
    return json.dumps(parsed, ensure_ascii=False)
