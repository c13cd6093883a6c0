"""Architectures of one stack over tokens: the base that embeds, runs the stack and makes the head; the decoder, which
writes; and the encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import (
    Architecture,
    CostRow,
    DecodingModel,
    DecodingState,
    Head,
    InputSize,
    left_padding,
    required,
)
from headtohead.architectures.heads import EncoderHeadFields, SequenceHeadFields, make_head
from headtohead.architectures.ledger import stack_rows
from headtohead.architectures.pooling import PoolerName
from headtohead.architectures.replaced_tokens import GeneratorFields, ReplacedTokenDetector, TokenGenerator
from headtohead.components.component import Context, Initialisation
from headtohead.components.embeddings import SegmentEmbedding, TokenEmbedding
from headtohead.components.feedforwards import Activation
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackOptions, StackParts, StackSize
from headtohead.field_group import FieldGroup
from headtohead.ranges import Amount, Length, Vocabulary, Width


@dataclass(frozen=True, kw_only=True)
class TokenFields(FieldGroup):
    """The tokens that a model reads: how many there are to choose from, how long rows get, how they are embedded."""

    vocab_size: Vocabulary | None
    max_length: Length | None
    scale_embedding: bool = False
    """Whether embeddings are multiplied by sqrt(d_model)."""

    def given_vocab_size(self) -> int:
        """Return the vocabulary's size, which data or the user must give."""
        return required("vocab_size", self.vocab_size, "it comes from data with tokens, or is given by number")

    def embedding(self, d_model: int) -> TokenEmbedding:
        """Return a new embedding of these tokens."""
        return TokenEmbedding(d_model, self.given_vocab_size(), scale=self.scale_embedding)


def _head(
    output: SequenceHeadFields,
    embedding: TokenEmbedding,
    parts: StackParts,
    options: StackOptions,
    *,
    pooler: PoolerName = "none",
    activation: Activation = "gelu",
    dense_bias: bool = True,
    width: int | None = None,
) -> Head:
    """Return the head of a stack over these tokens."""
    vocab_size, own_width = embedding.weight.shape
    return make_head(
        output.head,
        width or own_width,
        vocab_size=vocab_size,
        num_classes=output.num_classes,
        norm=parts.norm,
        tied_to=output.tied_to(embedding.weight),
        bias=output.head_bias,
        pooling=output.pooling,
        dropout=options.dropout,
        pooler=pooler,
        activation=activation,
        num_future_tokens=output.num_future_tokens,
        dense_bias=dense_bias,
        logit_cap=output.logit_cap,
        logit_scale=output.logit_scale,
        width=own_width,
    )


class TokenStack(DecodingModel):
    """head(stack(embedding(tokens))); constructors of architectures make the three."""

    embedding: TokenEmbedding
    stack: Stack

    @abstractmethod
    def __init__(self) -> None:
        """Makes embedding, stack and head."""
        super().__init__()

    def features(
        self,
        tokens: Int[Tensor, "B L"],
        valid: Bool[Tensor, "B L"] | None = None,
        segments: Int[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Return the stack's output; the tokens alone tell which sentence of a pair they belong to."""
        del token_types
        context = Context(valid=valid, segments=segments, positions=positions)
        y: Tensor = self.stack(self.embedding(tokens), context)
        return y

    @property
    def longest_written(self) -> int | None:
        return self.stack.position.max_length

    def prefill(
        self, tokens: Int[Tensor, "B L"], valid: Bool[Tensor, "B L"] | None, *, room: int, bos_id: int
    ) -> tuple[Float[Tensor, "B V"], DecodingState]:
        del bos_id
        like = self.embedding.weight
        stack = self.stack.initial_state(len(tokens), tokens.shape[1] + room, device=like.device, dtype=like.dtype)
        state = DecodingState(stack=stack, padding=left_padding(valid))
        return self._read(tokens, state, None if state.padding is None else valid), state

    def decode_step(self, tokens: Int[Tensor, "B L"], state: DecodingState) -> Float[Tensor, "B V"]:
        return self._read(tokens, state, None)

    def _read(
        self, tokens: Int[Tensor, "B L"], state: DecodingState, valid: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B V"]:
        context = state.context(tokens.shape[1], valid)
        features, state.stack = self.stack.step(self.embedding(tokens), state.stack, context)
        y: Tensor = self.head(features[:, -1])
        return y

    def length_error(self, size: InputSize) -> str | None:
        return self.stack.length_error(size.length)

    def num_tokens(self, size: InputSize) -> int:
        return size.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(size.length)
        yield CostRow("embedding", "embedding", self.embedding.costs(query))
        yield from stack_rows(self.stack, "stack", query)
        yield from (CostRow(*row) for row in self.head.cost_rows(self.head.query(size, size.length)))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        return {"tokens": self.embedding.example(batch_size, size.length, device)}


# A stack over tokens that is read one way, as GPT-2 (Radford et al. 2019), where every token sees those before it.
#
# With recurrent cells it is a recurrent network (Graves et al. 2013, https://arxiv.org/abs/1303.5778), which may read
# both ways (Schuster and Paliwal 1997, https://doi.org/10.1109/78.650093).


class DecoderOnly(TokenStack):
    """Token embedding, causal stack, head. Where `bidirectional` mixers read both ways, the next tokens are seen, so
    that nothing can be written; a recurrent layer is then two, whose outputs add up."""

    family = "decoder_only"
    no_mup_rule = ""

    def __init__(
        self,
        size: StackSize,
        parts: StackParts,
        *,
        tokens: TokenFields,
        output: SequenceHeadFields = SequenceHeadFields(),
        options: StackOptions = StackOptions(),
        bidirectional: bool = False,
        initialisation: Initialisation,  # draws the first weights
    ) -> None:
        super().__init__()
        size.check()
        self.embedding = tokens.embedding(size.d_model)
        self.stack = Stack(size, parts, options, causal=not bidirectional, max_length=tokens.max_length)
        self.head = _head(output, self.embedding, parts, options)
        initialisation(self)


# An encoder alone, as BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805): every token sees every other.


class EncoderOnly(Architecture):
    """Token and segment embeddings, bidirectional stack (which adds the positions), head."""

    family = "encoder_only"
    no_mup_rule = ""
    forward_methods = ("features", "generator_features")

    def __init__(
        self,
        size: StackSize,
        parts: StackParts,
        *,
        tokens: TokenFields,
        num_segments: Amount = 2,
        embedding_width: Width | None = None,  # of tables, which a linear map widens to d_model (ALBERT); None: d_model
        output: EncoderHeadFields = EncoderHeadFields(head="masked_language_model", head_bias=True, pooling="cls"),
        options: StackOptions = StackOptions(),
        generator: GeneratorFields = GeneratorFields(),
        initialisation: Initialisation,  # draws the first weights
    ) -> None:
        super().__init__()
        size.check()
        width = embedding_width or size.d_model
        self.embedding = tokens.embedding(width)
        self.segment_embedding = SegmentEmbedding(width, num_segments) if num_segments else None
        self.stack = Stack(
            size, parts, options, causal=False, max_length=tokens.max_length, embedding_width=embedding_width
        )
        if output.head == "replaced_token_detector":
            proposing = TokenGenerator(
                self.embedding.weight,
                generator.size(size),
                parts,
                options,
                max_length=tokens.max_length,
                activation=output.head_activation,
            )
            self.head = ReplacedTokenDetector(
                size.d_model, proposing, mask_rate=generator.mask_rate, activation=output.head_activation
            )
        else:
            self.head = _head(
                output,
                self.embedding,
                parts,
                options,
                pooler=output.pooler,
                activation=output.head_activation,
                dense_bias=output.head_dense_bias,
                width=size.d_model,
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
        """Encode the tokens; `segments` are documents packed into a row, `token_types` the sentences of a pair."""
        context = Context(valid=valid, segments=segments, positions=positions)
        y: Tensor = self.stack(self._embedded(tokens, token_types), context)
        return y

    def generator_features(
        self,
        tokens: Int[Tensor, "B L"],
        valid: Bool[Tensor, "B L"] | None = None,
        segments: Int[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        """Encode the tokens, of which some are hidden, by the generator beside the head that finds replaced tokens."""
        assert isinstance(self.head, ReplacedTokenDetector), "other heads have no generator"
        context = Context(valid=valid, segments=segments, positions=positions)
        y: Tensor = self.head.generator(self._embedded(tokens, token_types), context)
        return y

    def _embedded(self, tokens: Int[Tensor, "B L"], token_types: Int[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        x: Tensor = self.embedding(tokens)
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(token_types if token_types is not None else torch.zeros_like(tokens))
        return x

    def length_error(self, size: InputSize) -> str | None:
        return self.stack.length_error(size.length)

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
