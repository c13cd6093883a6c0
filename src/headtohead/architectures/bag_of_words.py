"""A bag of words or pairs of words, weighted by how rare each is (Spärck Jones 1972, https://doi.org/10.1108/eb026526),
then one linear layer: the baseline of text classification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture, CostRow, InputSize, required
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.heads import make_head
from headtohead.components.costs import Costs
from headtohead.components.norms import NoNorm
from headtohead.errors import UsageError
from headtohead.ranges import Count, Positive, Rows, Vocabulary

NO_GRAM = torch.iinfo(torch.int64).max
"""The value of an unused slot in the vocabulary of n-grams."""


class BagOfWords(Architecture):
    """Its words are tokens, and runs of them. It takes no steps: which n-grams count, and the weights, are found at
    once by a logistic regression, whose strength of regularisation validation selects."""

    family = "bag_of_words"
    trained_by_steps = False
    grams: Tensor
    """The numbers of the n-grams that count, in order."""
    rarity: Tensor
    """The rarity of each n-gram."""

    def __init__(
        self,
        *,
        vocab_size: Vocabulary | None,
        num_classes: Vocabulary | None,
        ngrams: Count = 2,
        max_features: Rows = 20_000,
        weighting: Literal["tfidf", "counts"] = "tfidf",
        strengths: Sequence[Positive] = (0.01, 0.1, 1.0, 10.0, 100.0),
        head: HeadName = "classifier",
    ) -> None:
        super().__init__()
        self.vocab_size = required("vocab_size", vocab_size, "it comes from data with tokens, or is given by number")
        if ngrams < 1 or self.vocab_size**ngrams >= NO_GRAM // 2:
            raise UsageError(f"model.ngrams={ngrams} is out of reach: give 1, 2 or 3.")
        if not strengths or min(strengths) <= 0:
            raise UsageError(f"model.strengths={list(strengths)}: give at least one, all of them above 0.")
        self.ngrams, self.weighting, self.strengths = ngrams, weighting, tuple(strengths)
        self.register_buffer("grams", torch.full((max_features,), NO_GRAM))
        self.register_buffer("rarity", torch.ones(max_features))
        self.head = make_head(
            head,
            max_features,
            vocab_size=None,
            num_classes=num_classes,
            norm=NoNorm,
            tied_to=None,
            bias=True,
            pooling="mean",
            dropout=0.0,
        )

    def numbers(
        self, tokens: Int[Tensor, "B L"], valid: Bool[Tensor, "B L"] | None = None
    ) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
        """Return the number of every n-gram, and a mask of those without padding."""
        tokens = tokens.long()
        real = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
        ngrams, masks, first = [tokens], [real], 0
        number, is_real = tokens, real
        for length in range(2, self.ngrams + 1):
            first += self.vocab_size ** (length - 1)
            number = number[:, :-1] * self.vocab_size + tokens[:, length - 1 :]
            is_real = is_real[:, :-1] & real[:, length - 1 :]
            ngrams.append(first + number)
            masks.append(is_real)
        return torch.cat(ngrams, 1), torch.cat(masks, 1)

    def features(
        self,
        tokens: Int[Tensor, "B L"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B 1 D"]:
        """Return one vector for the whole text."""
        del token_types
        numbers, is_real = self.numbers(tokens, valid)
        indices = torch.searchsorted(self.grams, numbers).clamp(max=len(self.grams) - 1)
        known = is_real & (self.grams[indices] == numbers)
        counts = self.rarity.new_zeros(len(tokens), len(self.grams))
        counts.scatter_add_(1, indices, known.to(counts.dtype))
        if self.weighting == "counts":
            return counts[:, None]
        return F.normalize(counts * self.rarity, dim=1)[:, None]

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B C"]:
        del token_types
        logits: Tensor = self.head(self.features(tokens, valid))
        return logits

    def num_tokens(self, size: InputSize) -> int:
        return size.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        """Yield the costs of the weights; counting is not a product."""
        query = size.query(1)
        yield CostRow("features", "counts", Costs(activation_bytes=len(self.grams) * size.bytes_per_element))
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        return {"tokens": torch.randint(self.vocab_size, (batch_size, size.length), device=device)}
