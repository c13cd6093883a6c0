"""An encoder alone, as BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805): every token sees every other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.checks import check_sizes, required
from headtohead.architectures.contracts import Architecture, CostRow, InputSize
from headtohead.architectures.heads import HeadName, make_head
from headtohead.architectures.patterns import mixers_by_layer
from headtohead.architectures.pooling import PoolerName, Pooling
from headtohead.architectures.stack_rows import stack_rows
from headtohead.components.contracts import (
    Context,
    FeedForwardFactory,
    Initialisation,
    MixerFactory,
    NormFactory,
    PositionFactory,
    WiringFactory,
)
from headtohead.components.embeddings import SegmentEmbedding, TokenEmbedding
from headtohead.components.feedforwards import Activation
from headtohead.components.mixers.identity import Identity
from headtohead.components.stack import Stack
from headtohead.ranges import Amount, Depth, Length, Probability, Vocabulary, Width


class EncoderOnly(Architecture):
    """Token and segment embeddings, bidirectional stack (which adds the positions), head."""

    family = "encoder_only"
    no_width_rule = ""

    def __init__(
        self,
        d_model: Width,
        num_layers: Depth,
        num_heads: Width,
        *,
        mixer: MixerFactory,
        pattern: Sequence[str] | None = None,
        mixers: Mapping[str, MixerFactory] | None = None,
        local: MixerFactory = Identity,
        position: PositionFactory,
        norm: NormFactory,
        residual: WiringFactory,
        feedforward: FeedForwardFactory,
        initialisation: Initialisation,
        vocab_size: Vocabulary | None,
        max_length: Length | None,
        head: HeadName = "masked_language_model",
        num_classes: Vocabulary | None = None,
        pooling: Pooling = "cls",
        pooler: PoolerName = "none",
        num_segments: Amount = 2,
        dropout: Probability = 0.0,
        drop_path: Probability = 0.0,
        tie_weights: bool = True,
        head_bias: bool = True,
        head_activation: Activation = "gelu",
        scale_embedding: bool = False,
        embedding_norm: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(d_model, num_layers, num_heads)
        vocab_size = required("vocab_size", vocab_size, "it comes from data with tokens, or is given by number")
        self.embedding = TokenEmbedding(d_model, vocab_size, scale=scale_embedding)
        self.segment_embedding = SegmentEmbedding(d_model, num_segments) if num_segments else None
        self.stack = Stack(
            d_model,
            num_heads=num_heads,
            mixers=mixers_by_layer(num_layers, mixer, pattern, mixers),
            local=local,
            position=position,
            norm=norm,
            residual=residual,
            feedforward=feedforward,
            causal=False,
            max_length=max_length,
            dropout=dropout,
            drop_path=drop_path,
            embedding_norm=embedding_norm,
        )
        self.head = make_head(
            head,
            d_model,
            vocab_size=vocab_size,
            num_classes=num_classes,
            norm=norm,
            tied_to=self.embedding.weight if tie_weights else None,
            bias=head_bias,
            pooling=pooling,
            pooler=pooler,
            activation=head_activation,
            dropout=dropout,
        )
        initialisation(self)

    def features(
        self,
        tokens: Int[Tensor, "B L"],
        valid: Bool[Tensor, "B L"] | None = None,
        segments: Int[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """`segments` are documents packed into a row, `token_types` the sentences of a pair."""
        x = self.embedding(tokens)
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(token_types if token_types is not None else torch.zeros_like(tokens))
        y: Tensor = self.stack(x, Context(valid=valid, segments=segments, positions=positions))
        return y

    def unreadable(self, size: InputSize) -> str | None:
        return self.stack.unreadable(size.length)

    def num_tokens(self, size: InputSize) -> int:
        return size.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(size.length)
        yield CostRow("embedding", "embedding", self.embedding.costs(query))
        if self.segment_embedding is not None:
            yield CostRow("segment_embedding", "embedding", self.segment_embedding.costs(query))
        yield from stack_rows(self.stack, "stack", query)
        yield from (CostRow(*row) for row in self.head.cost_rows(self.head.query(size, size.length)))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        return {"tokens": self.embedding.example(batch_size, size.length, device)}
