"""Stands for the package of a reader of the README, whose commands name `my_package.MyModel`."""

from __future__ import annotations

from torch import Tensor, nn


class MyModel(nn.Module):
    """Logits of each token from that token alone."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.layers(tokens)
        return logits
