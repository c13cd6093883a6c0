"""WordPiece as BERT's (Devlin et al. 2019, https://arxiv.org/abs/1810.04805): small letters without accents, words cut
at blanks and punctuation, and pieces that go on within a word marked by ##.

What it loses: capitals, accents, control characters, and how many blanks stood where; a word with a letter that the
texts did not have, or hardly ever, is unknown as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headtohead.data.bars import Tell
from headtohead.data.tokenizers.cutting import cut
from headtohead.data.tokenizers.special import SPECIAL_TOKENS
from headtohead.data.tokenizers.tokenizer import Tokenizer, code_points

SMALLEST = 64
"""Tokens: the special ones, and some letters at the beginning of words and within them."""
_WITHIN = "##"
_FIRST_LETTER = 0xF0000
"""Of the private use planes, where letters at the beginning of words and within them become letters of their own."""
_SHARE_OF_LETTERS = 0.5
"""Of the vocabulary; the rarest of more letters are left out."""


def train_wordpiece(texts: Iterable[str], vocab_size: int, tell: Tell) -> Tokenizer:
    """Pairs are merged by frequency; for one word each time it occurs, a line of letters that tell where they stand is
    learned from, so that ties are broken by letters and never by chance."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    library = Library(models.WordPiece(unk_token="<unk>", vocab={"<unk>": 0}))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    room = vocab_size - len(SPECIAL_TOKENS)
    letters = _letters(texts, library, int(_SHARE_OF_LETTERS * room / 2))
    words = _words(texts, library, tell)
    learner = Library(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    told = {letter: number for number, letter in enumerate(letters)}
    signs = [chr(_FIRST_LETTER + number) for number in range(2 * len(letters))]
    learner.train_from_iterator(
        _lines(words, told),
        trainers.BpeTrainer(vocab_size=room, initial_alphabet=signs, show_progress=False),
    )
    learned = sorted(learner.get_vocab().items(), key=lambda item: item[1])
    tokens = [*SPECIAL_TOKENS, *(_spelt(token, letters) for token, _ in learned)]
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
    """The most frequent ones, normalised, in the order of their code points."""
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


def _words(texts: Iterable[str], library: Any, tell: Tell) -> Counter[str]:
    words: Counter[str] = Counter()
    for text in texts:
        for piece in cut(text):
            normalised = library.normalizer.normalize_str(piece)
            words.update(word for word, _ in library.pre_tokenizer.pre_tokenize_str(normalised))
            tell(len(piece))
    return words


def _lines(words: Mapping[str, int], numbers: Mapping[str, int]) -> Iterator[str]:
    """Each word as often as it occurs, letters within it as signs of their own; none with a letter left out."""
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
