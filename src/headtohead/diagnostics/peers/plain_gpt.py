"""A GPT in plain torch, built as nanoGPT's (https://github.com/karpathy/nanoGPT): learned positions, one product for
queries, keys and values, fused attention, whole logits, and torch's AdamW on clipped gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class PlainAttention(nn.Module):
    """Causal attention with one linear map in and one out."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.num_heads, -1).transpose(1, 2) for part in self.inputs(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed: Tensor = self.output(y.transpose(1, 2).contiguous().view(batch, length, width))
        return mixed


class PlainBlock(nn.Module):
    """Attention and a feed-forward of four times the width, each after a norm."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = PlainAttention(width, num_heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        x = x + self.attention(self.norms[0](x))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))  # type: ignore[no-any-return]


class PlainGpt(nn.Module):
    """The whole model; called with targets it returns their mean loss."""

    def __init__(self, *, width: int, num_layers: int, num_heads: int, vocab_size: int, max_length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, width), nn.Embedding(max_length, width)
        self.blocks = nn.ModuleList(PlainBlock(width, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Int[Tensor, "B L"], targets: Int[Tensor, "B L"]) -> Float[Tensor, ""]:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())
