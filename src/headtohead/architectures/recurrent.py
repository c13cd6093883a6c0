"""Recurrent networks for sequences, stacked (Graves et al. 2013, https://arxiv.org/abs/1303.5778), one way or both ways
(Schuster and Paliwal 1997, https://doi.org/10.1109/78.650093)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headtohead.architectures.checks import check_sizes, required
from headtohead.architectures.heads import HeadName, make_head
from headtohead.architectures.patterns import mixers_by_layer
from headtohead.architectures.pooling import Pooling
from headtohead.architectures.token_stack import TokenStack
from headtohead.components.contracts import (
    FeedForwardFactory,
    Initialisation,
    MixerFactory,
    NormFactory,
    PositionFactory,
    WiringFactory,
)
from headtohead.components.embeddings import TokenEmbedding
from headtohead.components.mixers.identity import Identity
from headtohead.components.stack import Stack
from headtohead.ranges import Depth, Length, Probability, Vocabulary, Width


class Recurrent(TokenStack):
    """Token embedding, recurrent layers, head. Where the layers read both ways, each is two, and their outputs add up:
    the next tokens are seen, so that nothing can be written."""

    family = "recurrent"

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
        head: HeadName = "language_model",
        num_classes: Vocabulary | None = None,
        pooling: Pooling = "mean",
        bidirectional: bool = False,
        dropout: Probability = 0.0,
        drop_path: Probability = 0.0,
        tie_weights: bool = True,
        head_bias: bool = False,
        scale_embedding: bool = False,
        embedding_norm: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(d_model, num_layers, num_heads)
        vocab_size = required("vocab_size", vocab_size, "it comes from data with tokens, or is given by number")
        self.embedding = TokenEmbedding(d_model, vocab_size, scale=scale_embedding)
        self.stack = Stack(
            d_model,
            num_heads=num_heads,
            mixers=mixers_by_layer(num_layers, mixer, pattern, mixers),
            local=local,
            position=position,
            norm=norm,
            residual=residual,
            feedforward=feedforward,
            causal=not bidirectional,
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
            dropout=dropout,
        )
        initialisation(self)
