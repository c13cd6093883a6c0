"""Stands for the package of a reader of the README, whose commands name `my_package.MyModel`."""

from __future__ import annotations

from torch import Tensor, nn

VOCAB_SIZE = 256


class MyModel(nn.Module):
    """Logits of each byte from that byte alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(VOCAB_SIZE, width), nn.Linear(width, VOCAB_SIZE))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.layers(tokens)
        return logits
