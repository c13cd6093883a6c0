"""Name the heads without importing torch, for whoever asks before there is a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

HeadName = Literal[
    "language_model",
    "multi_token_language_model",
    "masked_language_model",
    "masked_language_model_and_pair",
    "classifier",
    "regressor",
    "text_vector",
    "tagger",
    "span",
    "pixel_decoder",
    "reconstruction",
    "replaced_token_detector",
]
_PACKAGE = "headtohead.architectures"
HEADS: Mapping[HeadName, str] = {
    "language_model": f"{_PACKAGE}.vocabulary_heads.LanguageModel",
    "multi_token_language_model": f"{_PACKAGE}.vocabulary_heads.MultiTokenLanguageModel",
    "masked_language_model": f"{_PACKAGE}.vocabulary_heads.MaskedLanguageModel",
    "masked_language_model_and_pair": f"{_PACKAGE}.vocabulary_heads.MaskedLanguageModelAndPair",
    "classifier": f"{_PACKAGE}.heads.Classifier",
    "regressor": f"{_PACKAGE}.heads.Regressor",
    "text_vector": f"{_PACKAGE}.pooling.TextVector",
    "tagger": f"{_PACKAGE}.heads.Tagger",
    "span": f"{_PACKAGE}.heads.Span",
    "pixel_decoder": f"{_PACKAGE}.pixel_decoder.PixelDecoder",
    "reconstruction": f"{_PACKAGE}.vocabulary_heads.Reconstruction",
    "replaced_token_detector": f"{_PACKAGE}.replaced_tokens.ReplacedTokenDetector",
}
"""The class of each head."""
NEXT_TOKEN_HEADS: tuple[HeadName, ...] = ("language_model", "multi_token_language_model")
"""Heads whose logits are those of the next token."""


def published_head(head: HeadName) -> HeadName:
    """Return the head of published checkpoints that this one begins with."""
    return "language_model" if head in NEXT_TOKEN_HEADS else head
