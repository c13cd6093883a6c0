"""Layers are named as people count them."""

from __future__ import annotations

import pytest

from headtohead.interpretability.layer_words import layer_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stack.0.mixer", "layer 1"),
        ("stack.10.mixer.receptive_field", "layer 11, receptive field"),
        ("encoder.0.mixer", "encoder layer 1"),
        ("decoder.1.cross", "decoder layer 2, cross-attention"),
        ("stack.0.mixer.without_mask", "layer 1, without its mask"),
        ("model.receptive_field", "model receptive field"),
    ],
)
def test_a_path_becomes_the_words_for_its_layer(name: str, words: str) -> None:
    assert layer_words(name) == words
