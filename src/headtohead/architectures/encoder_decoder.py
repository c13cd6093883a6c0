"""The transformer of 2017 (https://arxiv.org/abs/1706.03762): a decoder that reads an encoder's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import CostRow, DecodingModel, DecodingState, InputSize
from headtohead.architectures.heads import HeadFields, make_head
from headtohead.architectures.ledger import stack_rows
from headtohead.architectures.token_stack import TokenFields
from headtohead.components.block_parts import FeedForwardFactory, NormFactory, ResidualSchemeFactory
from headtohead.components.component import (
    Context,
    CrossFactory,
    CrossMixer,
    Initialisation,
    MixerFactory,
    PositionFactory,
)
from headtohead.components.costs import CostContext, Costs
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import PatternFields, StackOptions, StackParts, StackSize
from headtohead.ranges import Depth, Length

_SLOTS = ("mixer", "pattern", "local", "position", "norm", "residual", "feedforward", "feedforward_pattern")
"""The fields that a side may have of its own."""


@dataclass(frozen=True)
class EncoderOrDecoder:
    """The options of one side; None takes the shared ones."""

    num_layers: Depth | None = None
    """Layers of this side; None takes model.num_layers."""
    mixer: MixerFactory | None = None
    """The mixer of this side; None takes model.mixer."""
    pattern: Sequence[str] | None = None
    """The mixers by layer of this side; None takes model.pattern, or `mixer` in all layers where this side has its
    own."""
    local: MixerFactory | None = None
    """The local mixer before each mixer of this side; None takes model.local."""
    position: PositionFactory | None = None
    """The positions of this side; None takes model.position."""
    norm: NormFactory | None = None
    """The norm of this side; None takes model.norm."""
    residual: ResidualSchemeFactory | None = None
    """The residual scheme of this side; None takes model.residual."""
    feedforward: FeedForwardFactory | None = None
    """The feed-forward of this side; None takes model.feedforward."""
    feedforward_pattern: Sequence[str] | None = None
    """The feed-forwards by layer of this side; None takes model.feedforward_pattern, or `feedforward` in all layers
    where this side has its own."""

    def field(self, name: str, path: str) -> str:
        """Return the configuration's field in force: this side's own below `path`, or the shared one."""
        return f"model.{name}" if getattr(self, name) is None else f"{path}.{name}"

    def size(self, shared: StackSize, path: str) -> StackSize:
        """Return the size of this side, whose depth may be its own."""
        size = replace(shared, num_layers=shared.num_layers if self.num_layers is None else self.num_layers)
        size.check(self.field("num_layers", path))
        return size

    def parts(self, shared: StackParts, size: StackSize, path: str) -> StackParts:
        """Return what this side's stack is made of; a mixer of its own puts the shared pattern out of force,
        and a feed-forward of its own that of feed-forwards and of early layers."""
        own = {slot: part for slot in _SLOTS if (part := getattr(self, slot)) is not None}
        if self.mixer is not None:
            own.setdefault("pattern", None)
        if self.feedforward is not None:
            own.setdefault("feedforward_pattern", None)
        if self.feedforward is not None or self.feedforward_pattern is not None:
            own["num_early_layers"] = 0
        parts, layers = replace(shared, **own), self.field("num_layers", path)
        parts.mixer_by_layer(size.num_layers, PatternFields(self.field("pattern", path), layers))
        parts.feedforward_by_layer(size.num_layers, PatternFields(self.field("feedforward_pattern", path), layers))
        return parts


@dataclass(frozen=True, kw_only=True)
class TwoSidedTokens(TokenFields):
    """The tokens of source and target."""

    max_target_length: Length | None
    share_embeddings: bool = True


class EncoderDecoder(DecodingModel):
    """Embedding(s), a bidirectional stack for the source, a causal one with cross-attention for the target, head."""

    family = "encoder_decoder"
    no_mup_rule = ""
    reads_source = True

    def __init__(
        self,
        size: StackSize,
        parts: StackParts,
        *,
        cross: CrossFactory,  # how the decoder reads the encoder's output
        tokens: TwoSidedTokens,
        encoder: EncoderOrDecoder | None = None,
        decoder: EncoderOrDecoder | None = None,
        output: HeadFields = HeadFields(),
        scale_logits: bool = False,
        options: StackOptions = StackOptions(),
        initialisation: Initialisation,  # draws the first weights
    ) -> None:
        super().__init__()
        vocab_size, d_model = tokens.given_vocab_size(), size.d_model
        source, target = (own or EncoderOrDecoder() for own in (encoder, decoder))
        sizes = source.size(size, "model.encoder"), target.size(size, "model.decoder")
        self.embedding = tokens.embedding(d_model)
        read = source.parts(parts, sizes[0], "model.encoder")
        self.encoder = Stack(sizes[0], read, options, causal=False, max_length=tokens.max_length)
        self.decoder_embedding = self.embedding if tokens.share_embeddings else tokens.embedding(d_model)
        written = target.parts(parts, sizes[1], "model.decoder")
        length = tokens.max_target_length
        self.decoder = Stack(sizes[1], written, options, cross=cross, causal=True, max_length=length)
        self.head = make_head(
            output.head,
            d_model,
            vocab_size=vocab_size,
            num_classes=None,
            norm=written.norm,
            tied_to=output.tied_to(self.decoder_embedding.weight),
            bias=output.head_bias,
            pooling="last",
            dropout=options.dropout,
            scale_logits=scale_logits,
            logit_cap=output.logit_cap,
            logit_scale=output.logit_scale,
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

    def prefill(
        self, tokens: Int[Tensor, "B S"], valid: Bool[Tensor, "B S"] | None, *, room: int, bos_id: int
    ) -> tuple[Float[Tensor, "B V"], DecodingState]:
        like = self.embedding.weight
        stack = self.decoder.initial_state(len(tokens), 1 + room, device=like.device, dtype=like.dtype)
        state = DecodingState(stack=stack, memory=self.encode(tokens, valid), memory_valid=valid)
        return self.decode_step(torch.full((len(tokens), 1), bos_id, device=tokens.device), state), state

    def decode_step(self, tokens: Int[Tensor, "B L"], state: DecodingState) -> Float[Tensor, "B V"]:
        context = state.context(tokens.shape[1])
        features, state.stack = self.decoder.step(self.decoder_embedding(tokens), state.stack, context)
        y: Tensor = self.head(features[:, -1])
        return y

    def length_error(self, size: InputSize) -> str | None:
        return self.encoder.length_error(size.length) or self.decoder.length_error(size.decoder_length)

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

    def _by_side(self, row: CostRow, target: CostContext) -> Iterator[CostRow]:
        """Yield a row's costs by side: what a cross mixer does for the source alone is what it does when no target
        token queries it."""
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


# A recurrent decoder that looks, word by word, for what it needs in what a recurrent encoder read both ways (Bahdanau
# et al. 2015, https://arxiv.org/abs/1409.0473).


class RecurrentEncoderDecoder(EncoderDecoder):
    """The same two stacks, with other bricks: recurrent cells that carry the order of tokens by themselves, no stream
    and no feed-forward between them.

    Every layer of the decoder reads the memory right after its cell (Luong et al. 2015,
    https://arxiv.org/abs/1508.04025), so that no loop over words is needed in training. The decoder starts from zero:
    all that it knows of the source, it reads there.
    """

    family = "recurrent_encoder_decoder"
