"""What the attentions of recurrent networks share: one set of weights for each token over the memory, and an output of
what was found and the state that asked."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.attending import Attends
from headtohead.components.contracts import Context, CrossMixer, State
from headtohead.components.scores import as_bias
from headtohead.errors import UsageError


@dataclass
class AnnotationState(State):
    """The memory, what its scores need of it, and its mask; `length` is that of the memory."""

    keys: Float[Tensor, "B S A"] | None = None
    memory: Float[Tensor, "B S D"] | None = None
    bias: Float[Tensor, "B 1 S"] | None = None


class SingleAttention(CrossMixer, Attends):
    """Subclasses say how pairs are scored, and how what is found joins the state. These papers have no heads, so that
    `num_heads` changes nothing; dropout acts on the weights."""

    def __init__(self, d_model: int, *, num_heads: int, dropout: float) -> None:
        super().__init__()
        del num_heads
        self.d_model, self.dropout = d_model, dropout

    @abstractmethod
    def read(self, context: Context) -> AnnotationState:
        """What decoding needs of the memory, made once."""

    @abstractmethod
    def scores(self, x: Float[Tensor, "B L D"], state: AnnotationState) -> Float[Tensor, "B L S"]:
        """Of every state with every annotation."""

    @abstractmethod
    def join(self, x: Float[Tensor, "B L D"], found: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """The output."""

    def annotations(self, context: Context) -> tuple[Tensor, Tensor | None]:
        """The memory, and its mask as a bias."""
        memory, valid = context.memory, context.memory_valid
        if memory is None:
            raise UsageError("a cross mixer needs context.memory: give the decoder what the encoder made")
        return memory, None if valid is None else as_bias(valid[:, None, None, :], memory.dtype)[:, 0]

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        return self.step(x, self.read(context), context)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> Float[Tensor, "B L D"]:
        del context
        assert isinstance(state, AnnotationState) and state.memory is not None
        weights = F.dropout(self._weights(x, state), self.dropout, self.training)
        return self.join(x, weights.to(state.memory.dtype) @ state.memory)

    def _weights(self, x: Float[Tensor, "B L D"], state: AnnotationState) -> Float[Tensor, "B L S"]:
        """In float32 at least; where no annotation is allowed, none has weight."""
        scores = self.scores(x, state)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if state.bias is None:
            return scores.softmax(-1)
        scores = scores + state.bias.to(scores.dtype)
        empty = (scores == float("-inf")).all(-1, keepdim=True)
        return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B 1 L S"]:
        del causal
        return self._weights(x, self.read(context))[:, None]

    def mixed(
        self, weights: Float[Tensor, "B 1 L S"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        memory, _ = self.annotations(context)
        return self.join(x, weights[:, 0].to(memory.dtype) @ memory)
