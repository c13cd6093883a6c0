"""Text to token ids and back: bytes, characters, byte-pair encoding, unigram, WordPiece, or whatever was published."""

from headtohead.data.tokenizers.framing import alternating, framed, shortened
from headtohead.data.tokenizers.given import given_tokenizer, is_given
from headtohead.data.tokenizers.learning import learned_tokenizer
from headtohead.data.tokenizers.letters import letter_bytes
from headtohead.data.tokenizers.special import BOS, EOS, MASK, PAD, SPECIAL_TOKENS, UNK, SpecialIds
from headtohead.data.tokenizers.tokenizer import (
    Tokenizer,
    TokenizerKind,
    TokenizerName,
    code_points,
    library_of,
)
from headtohead.data.tokenizers.training import DEFAULT_SIZE, check_tokenizer, train_tokenizer

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
    "given_tokenizer",
    "is_given",
    "learned_tokenizer",
    "letter_bytes",
    "library_of",
    "shortened",
    "train_tokenizer",
]
