"""Text to token ids and back: bytes, characters, byte-pair encoding, unigram, WordPiece, or whatever was published."""

from headtohead.data.tokenizers.published_tokenizer import letter_bytes
from headtohead.data.tokenizers.special_tokens import (
    BOS,
    EOS,
    MASK,
    PAD,
    SPECIAL_TOKENS,
    UNK,
    SpecialIds,
    alternating,
    framed,
    shortened,
)
from headtohead.data.tokenizers.tokenizer import (
    Tokenizer,
    TokenizerKind,
    TokenizerName,
    code_points,
    library_of,
)
from headtohead.data.tokenizers.tokenizer_cache import trained_tokenizer
from headtohead.data.tokenizers.tokenizer_choice import is_named, named_tokenizer
from headtohead.data.tokenizers.tokenizer_training import DEFAULT_SIZE, check_tokenizer, train_tokenizer

__all__ = [
    "BOS",
    "DEFAULT_SIZE",
    "EOS",
    "MASK",
    "PAD",
    "SPECIAL_TOKENS",
    "UNK",
    "SpecialIds",
    "Tokenizer",
    "TokenizerKind",
    "TokenizerName",
    "alternating",
    "check_tokenizer",
    "code_points",
    "framed",
    "is_named",
    "letter_bytes",
    "library_of",
    "named_tokenizer",
    "shortened",
    "train_tokenizer",
    "trained_tokenizer",
]
