"""A tokenizer learned once per machine from the same texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from headtohead.data.cache.prepared_content import PreparedContent, prepared
from headtohead.data.tokenizers.tokenizer import Tokenizer, TokenizerName
from headtohead.data.tokenizers.tokenizer_training import DEFAULT_SIZE, train_tokenizer

_QUICK = ("byte", "char")
"""Kinds that are learned faster than they are found."""


def trained_tokenizer(kind: TokenizerName, texts: Iterable[str], vocab_size: int | None = None) -> Tokenizer:
    """Return `train_tokenizer`'s result, from the cache where the same was learned from the same texts before; they are
    iterated several times."""
    if kind in _QUICK:
        return train_tokenizer(kind, texts, vocab_size)
    parameters = {
        "kind": kind,
        "vocab_size": vocab_size or DEFAULT_SIZE,
        "texts": digest_of_texts(texts),
        "code": _code_digest(),
    }
    made = prepared(
        "tokenizers", parameters, lambda: PreparedContent({}, train_tokenizer(kind, texts, vocab_size).to_dict())
    )
    return Tokenizer.from_dict(made.facts)


def digest_of_texts(texts: Iterable[str]) -> str:
    """Return a digest that is the same only for the same texts in the same order."""
    hashed = hashlib.blake2b(digest_size=16)
    for text in texts:
        content = text.encode()
        hashed.update(len(content).to_bytes(8, "big"))
        hashed.update(content)
    return hashed.hexdigest()


@lru_cache(maxsize=1)
def _code_digest() -> str:
    """Return the digest of this package's code and the library, so that no tokenizer of older code is used."""
    from tokenizers import __version__

    hashed = hashlib.blake2b(__version__.encode(), digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()
