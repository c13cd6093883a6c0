"""Modules as anybody may have them, which know nothing of this project."""

from __future__ import annotations

from torch import Tensor, nn


class NextToken(nn.Module):
    """Tokens in, logits of the next one out; one way, by a kernel of torch."""

    def __init__(self, vocab_size: int, width: int = 16) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.cell(self.table(tokens))[0])


class MaskedMean(nn.Module):
    """Tokens and a mask in, a mapping with logits of classes out."""

    def __init__(self, vocab_size: int, num_classes: int, width: int = 8) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        self.out = nn.Linear(width, num_classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
        x = self.table(input_ids)
        if attention_mask is None:
            return {"logits": self.out(x.mean(1))}
        saved = attention_mask[..., None].to(x.dtype)
        return {"logits": self.out((x * saved).sum(1) / saved.sum(1))}


class Pixels(nn.Module):
    """Images in, a tuple that begins with logits out."""

    def __init__(self, num_inputs: int, num_classes: int) -> None:
        super().__init__()
        self.out = nn.Linear(num_inputs, num_classes)

    def forward(self, images: Tensor) -> tuple[Tensor, None]:
        return self.out(images.flatten(1)), None


class Unmakeable(nn.Module):
    """Its constructor raises."""

    def __init__(self) -> None:
        super().__init__()
        raise KeyError("width")
