"""The transformer of 2017 (https://arxiv.org/abs/1706.03762): a decoder that reads an encoder's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.checks import check_sizes, required
from headtohead.architectures.contracts import CostRow, InputSize
from headtohead.architectures.decoding import Decodes, Decoding
from headtohead.architectures.heads import HeadName, make_head
from headtohead.architectures.patterns import mixers_by_layer
from headtohead.architectures.stack_rows import stack_rows
from headtohead.components.contracts import (
    Context,
    CostQuery,
    Costs,
    CrossFactory,
    CrossMixer,
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


@dataclass(frozen=True)
class Side:
    """What one side has of its own; None takes what both share."""

    num_layers: Depth | None = None
    mixer: MixerFactory | None = None
    pattern: Sequence[str] | None = None
    local: MixerFactory | None = None
    position: PositionFactory | None = None
    norm: NormFactory | None = None
    residual: WiringFactory | None = None
    feedforward: FeedForwardFactory | None = None

    def field(self, name: str, path: str) -> str:
        """The field of the configuration that holds what is in force: this side's own below `path`, or the shared."""
        return f"model.{name}" if getattr(self, name) is None else f"{path}.{name}"

    def parts(self, shared: Side, mixers: Mapping[str, MixerFactory] | None, path: str) -> dict[str, Any]:
        """What a stack is made of; a mixer of its own puts the shared pattern out of force."""
        names = (field.name for field in fields(self))
        chosen = {name: getattr(shared if getattr(self, name) is None else self, name) for name in names}
        pattern, mixer = chosen.pop("pattern"), chosen.pop("mixer")
        if self.mixer is not None and self.pattern is None:
            pattern = None
        by_layer = mixers_by_layer(
            chosen.pop("num_layers"),
            mixer,
            pattern,
            mixers,
            pattern_field=self.field("pattern", path),
            layers_field=self.field("num_layers", path),
        )
        return {"mixers": by_layer, **chosen}


class EncoderDecoder(Decodes):
    """Embedding(s), a bidirectional stack for the source, a causal one with cross-attention for the target, head."""

    family = "encoder_decoder"
    no_width_rule = ""
    reads_source = True

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
        cross: CrossFactory,
        position: PositionFactory,
        norm: NormFactory,
        residual: WiringFactory,
        feedforward: FeedForwardFactory,
        initialisation: Initialisation,
        vocab_size: Vocabulary | None,
        max_length: Length | None,
        max_target_length: Length | None,
        encoder: Side | None = None,
        decoder: Side | None = None,
        head: HeadName = "language_model",
        dropout: Probability = 0.0,
        drop_path: Probability = 0.0,
        share_embeddings: bool = True,
        tie_weights: bool = True,
        head_bias: bool = False,
        scale_logits: bool = False,
        scale_embedding: bool = False,
        embedding_norm: bool = False,
    ) -> None:
        super().__init__()
        vocab_size = required("vocab_size", vocab_size, "it comes from data with tokens, or is given by number")
        shared = Side(num_layers, mixer, pattern, local, position, norm, residual, feedforward)
        source, target = (own or Side() for own in (encoder, decoder))
        for own, path in ((source, "model.encoder"), (target, "model.decoder")):
            depth = num_layers if own.num_layers is None else own.num_layers
            check_sizes(d_model, depth, num_heads, layers_field=own.field("num_layers", path))
        stack = partial(
            Stack,
            d_model,
            num_heads=num_heads,
            dropout=dropout,
            drop_path=drop_path,
            embedding_norm=embedding_norm,
        )
        embed = partial(TokenEmbedding, d_model, vocab_size, scale=scale_embedding)
        self.embedding = embed()
        self.encoder = stack(**source.parts(shared, mixers, "model.encoder"), causal=False, max_length=max_length)
        self.decoder_embedding = self.embedding if share_embeddings else embed()
        own_parts = target.parts(shared, mixers, "model.decoder")
        self.decoder = stack(**own_parts, cross=cross, causal=True, max_length=max_target_length)
        self.head = make_head(
            head,
            d_model,
            vocab_size=vocab_size,
            num_classes=None,
            norm=target.norm or norm,
            tied_to=self.decoder_embedding.weight if tie_weights else None,
            bias=head_bias,
            pooling="last",
            dropout=dropout,
            scale_logits=scale_logits,
        )
        initialisation(self)

    def encode(self, tokens: Int[Tensor, "B S"], valid: Bool[Tensor, "B S"] | None = None) -> Float[Tensor, "B S D"]:
        y: Tensor = self.encoder(self.embedding(tokens), Context(valid=valid))
        return y

    def features(
        self,
        tokens: Int[Tensor, "B S"],
        decoder_tokens: Int[Tensor, "B T"],
        valid: Bool[Tensor, "B S"] | None = None,
        decoder_valid: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        memory = self.encode(tokens, valid)
        context = Context(valid=decoder_valid, memory=memory, memory_valid=valid)
        y: Tensor = self.decoder(self.decoder_embedding(decoder_tokens), context)
        return y

    @property
    def longest_written(self) -> int | None:
        return self.decoder.position.max_length

    def start(
        self, tokens: Int[Tensor, "B S"], valid: Bool[Tensor, "B S"] | None, *, room: int, bos_id: int
    ) -> tuple[Float[Tensor, "B V"], Decoding]:
        like = self.embedding.weight
        stack = self.decoder.initial_state(len(tokens), 1 + room, device=like.device, dtype=like.dtype)
        state = Decoding(stack=stack, memory=self.encode(tokens, valid), memory_valid=valid)
        return self.advance(torch.full((len(tokens), 1), bos_id, device=tokens.device), state), state

    def advance(self, tokens: Int[Tensor, "B L"], state: Decoding) -> Float[Tensor, "B V"]:
        context = state.context(tokens.shape[1])
        features, state.stack = self.decoder.step(self.decoder_embedding(tokens), state.stack, context)
        y: Tensor = self.head(features[:, -1])
        return y

    def unreadable(self, size: InputSize) -> str | None:
        return self.encoder.unreadable(size.length) or self.decoder.unreadable(size.decoder_length)

    def num_tokens(self, size: InputSize) -> int:
        return size.length + size.decoder_length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        source = size.query(size.length)
        target = size.query(size.decoder_length, size.length)
        yield CostRow("embedding", "embedding", self.embedding.costs(source))
        yield from stack_rows(self.encoder, "encoder", source)
        second = self.decoder_embedding.costs(target)
        if self.decoder_embedding is self.embedding:
            second = Costs(activation_bytes=second.activation_bytes)
        yield CostRow("decoder_embedding", "embedding", second, "target")
        for row in stack_rows(self.decoder, "decoder", target):
            yield from self._by_side(row, target)
        yield from (CostRow(*row, "target") for row in self.head.cost_rows(self.head.query(size, size.decoder_length)))

    def _by_side(self, row: CostRow, target: CostQuery) -> Iterator[CostRow]:
        """What a cross mixer does for the source alone is what it does when no target token asks."""
        if row.kind != "cross":
            yield replace(row, side="target")
            return
        cross = self.get_submodule(row.path)
        assert isinstance(cross, CrossMixer)
        alone = cross.costs(replace(target, length=0))
        memory = Costs(forward_flops=alone.forward_flops, training_flops=alone.training_flops)
        rest = replace(
            row.costs,
            forward_flops=row.costs.forward_flops - memory.forward_flops,
            training_flops=row.costs.training_flops - memory.training_flops,
        )
        yield CostRow(row.path, row.kind, rest, "target")
        yield CostRow(f"{row.path}.memory", row.kind, memory, "source")

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "tokens": self.embedding.example(batch_size, size.length, device),
            "decoder_tokens": self.decoder_embedding.example(batch_size, size.decoder_length, device),
        }
