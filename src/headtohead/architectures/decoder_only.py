"""A decoder alone, as GPT-2 (Radford et al. 2019): every token sees those before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.checks import check_sizes, required
from headtohead.architectures.contracts import CostRow, InputSize
from headtohead.architectures.decoding import Decodes, Decoding, left_padding
from headtohead.architectures.heads import HeadName, make_head
from headtohead.architectures.patterns import mixers_by_layer
from headtohead.architectures.pooling import Pooling
from headtohead.architectures.stack_rows import stack_rows
from headtohead.components.contracts import (
    Context,
    CostQuery,
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


class DecoderOnly(Decodes):
    """Token embedding, causal stack, head."""

    family = "decoder_only"

    def __init__(
        self,
        d_model: int,
        num_layers: int,
        num_heads: int,
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
        vocab_size: int | None,
        max_length: int | None,
        head: HeadName = "language_model",
        num_classes: int | None = None,
        pooling: Pooling = "last",
        dropout: float = 0.0,
        drop_path: float = 0.0,
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
            causal=True,
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

    def features(
        self,
        tokens: Int[Tensor, "B L"],
        valid: Bool[Tensor, "B L"] | None = None,
        segments: Int[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Which sentence of a pair a token is from, a decoder reads from the tokens themselves."""
        del token_types
        context = Context(valid=valid, segments=segments, positions=positions)
        return self.stack(self.embedding(tokens), context)

    @property
    def longest_written(self) -> int | None:
        return self.stack.position.max_length

    def start(
        self, tokens: Int[Tensor, "B L"], valid: Bool[Tensor, "B L"] | None, *, room: int, bos_id: int
    ) -> tuple[Float[Tensor, "B V"], Decoding]:
        del bos_id
        like = self.embedding.weight
        stack = self.stack.initial_state(len(tokens), tokens.shape[1] + room, device=like.device, dtype=like.dtype)
        state = Decoding(stack=stack, padding=left_padding(valid))
        return self._read(tokens, state, None if state.padding is None else valid), state

    def advance(self, tokens: Int[Tensor, "B L"], state: Decoding) -> Float[Tensor, "B V"]:
        return self._read(tokens, state, None)

    def _read(
        self, tokens: Int[Tensor, "B L"], state: Decoding, valid: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B V"]:
        context = state.context(tokens.shape[1], valid)
        features, state.stack = self.stack.step(self.embedding(tokens), state.stack, context)
        return self.head(features[:, -1])

    def num_tokens(self, size: InputSize) -> int:
        return size.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = CostQuery(length=size.length, bytes_per_element=size.bytes_per_element)
        yield CostRow("embedding", "embedding", self.embedding.costs(query))
        yield from stack_rows(self.stack, "stack", query)
        yield from (CostRow(*row) for row in self.head.cost_rows(self.head.query(size, size.length)))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        return {"tokens": self.embedding.example(batch_size, size.length, device)}
