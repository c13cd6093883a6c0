"""What architectures of one stack over tokens share: embedding, stack, head; they write where the stack is causal."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.contracts import CostRow, InputSize
from headtohead.architectures.decoding import Decodes, Decoding, left_padding
from headtohead.architectures.stack_rows import stack_rows
from headtohead.components.contracts import Context
from headtohead.components.embeddings import TokenEmbedding
from headtohead.components.stack import Stack


class TokenStack(Decodes):
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
        """Which sentence of a pair a token is from, it reads from the tokens themselves."""
        del token_types
        context = Context(valid=valid, segments=segments, positions=positions)
        y: Tensor = self.stack(self.embedding(tokens), context)
        return y

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
        y: Tensor = self.head(features[:, -1])
        return y

    def unreadable(self, size: InputSize) -> str | None:
        return self.stack.unreadable(size.length)

    def num_tokens(self, size: InputSize) -> int:
        return size.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(size.length)
        yield CostRow("embedding", "embedding", self.embedding.costs(query))
        yield from stack_rows(self.stack, "stack", query)
        yield from (CostRow(*row) for row in self.head.cost_rows(self.head.query(size, size.length)))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        return {"tokens": self.embedding.example(batch_size, size.length, device)}
