"""A convolutional network for sentences (Kim 2014, https://arxiv.org/abs/1408.5882)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture, CostRow, InputSize, required
from headtohead.architectures.heads import ClassHeadFields
from headtohead.components.component import Initialisation
from headtohead.components.convolutions import TextConvolutions
from headtohead.components.embeddings import TokenEmbedding
from headtohead.components.norms import NoNorm
from headtohead.components.stack_parts import check_sizes
from headtohead.ranges import Probability, Vocabulary, Width


class TextCnn(Architecture):
    """Windows of several widths over the words; of each filter the most it finds anywhere; a classifier of these."""

    no_mup_rule = "convolutions need rules of their own (https://arxiv.org/abs/2203.03466, of ResNets)"
    family = "text_cnn"

    def __init__(
        self,
        d_model: Width,
        *,
        initialisation: Initialisation,  # draws the first weights
        vocab_size: Vocabulary | None,
        classes: ClassHeadFields,
        widths: Sequence[Width] = (3, 4, 5),
        num_filters: Width = 100,
        dropout: Probability = 0.5,
    ) -> None:
        super().__init__()
        check_sizes(d_model, 1, 1)
        vocab_size = required("vocab_size", vocab_size, "it comes from data with tokens, or is given by number")
        self.embedding = TokenEmbedding(d_model, vocab_size)
        self.convolutions = TextConvolutions(d_model, tuple(widths), required("num_filters", num_filters, ""))
        self.head = classes.make(self.convolutions.width, norm=NoNorm, dropout=dropout)
        initialisation(self)

    def features(
        self,
        tokens: Int[Tensor, "B L"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B 1 E"]:
        """Return one vector for the whole text; the tokens alone tell which sentence of a pair they belong to."""
        del token_types
        y: Tensor = self.convolutions(self.embedding(tokens), valid)[:, None]
        return y

    def forward(self, *args: Any, **inputs: Any) -> Tensor:
        logits: Tensor = self.head(self.features(*args, **inputs))
        return logits

    def num_tokens(self, size: InputSize) -> int:
        return size.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(size.length)
        yield CostRow("embedding", "embedding", self.embedding.costs(query))
        yield CostRow("convolutions", "convolution", self.convolutions.costs(query))
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        return {"tokens": self.embedding.example(batch_size, size.length, device)}
