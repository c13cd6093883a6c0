"""Name the heads without importing torch, for whoever asks before there is a model."""

from __future__ import annotations

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
]
NEXT_TOKEN_HEADS: tuple[HeadName, ...] = ("language_model", "multi_token_language_model")
"""Heads whose logits are those of the next token."""


def published_head(head: HeadName) -> HeadName:
    """Return the head of published checkpoints that this one begins with."""
    return "language_model" if head in NEXT_TOKEN_HEADS else head
