"""These contracts are for the parts around the mixer of a block: norms, feed-forwards and residual schemes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Component, Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.errors import UsageError


class Norm(Component):
    """Normalises each token; it sees other tokens only as `context` allows (or, as batch norm, by statistics of all
    valid tokens)."""

    keeps_statistics: ClassVar[bool] = False
    """Whether training updates running statistics, which recomputation must not do twice."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """Normalise the tokens; the shape stays the same."""

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> State:
        """Return the state that decoding starts with; empty for a norm that treats every token by itself."""
        del batch_size, device, dtype
        return State()

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        """Process the next tokens, given the state of all before."""
        y: Tensor = self(x, context)
        return y, state


class FeedForward(Component):
    """Works on every token by itself, or with a glance at the token before: x[B, L, D] -> y[B, L, D]."""

    follows_order: ClassVar[bool] = False
    """Whether it reads other tokens by their order."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """Transform the tokens; the shape stays the same."""

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> State:
        """Return the state that decoding starts with; empty for one that treats every token by itself."""
        del batch_size, device, dtype
        return State()

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        """Process the next tokens, given the state of all before."""
        y: Tensor = self(x, context)
        return y, state


class ResidualScheme(Component):
    """The way in which the sublayers of a block meet the residual stream; it owns the branches' dropout and drop
    path."""

    needs_final_norm: bool
    """Whether the stream leaves the last block without a norm."""
    begins_with_norm: ClassVar[bool] = False
    """Whether a norm precedes the first sublayer and nothing else, so that it can be left out."""
    has_stream: ClassVar[bool] = True
    """Whether there is a stream; without one, sublayers follow each other."""
    num_streams: int = 1
    """The number of streams, each as wide as the model, that pass from block to block side by side."""
    branch_gain: float = 1.0
    """Initialisations multiply the weights of a branch by this, queries and keys left out."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "B L D"], sublayers: Sequence[Sublayer], context: Context
    ) -> Float[Tensor, "B L D"]:
        """Return the stream after the sublayers."""

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> State:
        """Return the state that decoding starts with: the states of its norms, where it has any."""
        del batch_size, device, dtype
        return State()

    def step(
        self, x: Float[Tensor, "B L D"], sublayers: Sequence[Sublayer], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], State]:
        """Return the stream of the next tokens; the sublayers update their own states."""
        y: Tensor = self(x, sublayers, context)
        return y, state

    def leave_out_first_norm(self) -> None:
        """Let the first sublayer read the stream as it is, where it would read it through a norm of its own."""
        raise UsageError(
            f"model.first_norm=false leaves out the norm before a first sublayer, and {type(self).__name__} has none "
            "there: choose model/residual=pre, or leave model.first_norm=true"
        )

    def widened(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L SD"]:
        """Return all streams as they enter the first block."""
        return x

    def narrowed(self, x: Float[Tensor, "B L SD"]) -> Float[Tensor, "B L D"]:
        """Return one stream, made of all that leave the last block."""
        return x

    def output_bytes(self, query: CostContext) -> int:
        """Return the bytes of a sublayer's output where whatever reads it next saves that very tensor, else 0."""
        del query
        return 0


Sublayer = Callable[[Tensor], Tensor]


NormFactory = Callable[[int], Norm]


FeedForwardFactory = Callable[..., FeedForward]
"""feedforward(d_model, dropout=p)"""


ResidualSchemeFactory = Callable[..., ResidualScheme]
"""residual(norm, d_model, branches)"""


@dataclass(frozen=True)
class Branches:
    """The branches of one block: how many, in a stack of how many layers, and how often they are dropped."""

    num_layers: int
    num_sublayers: int = 2
    """Two of most blocks: a mixer and a feed-forward. One without a feed-forward, three with a cross mixer."""
    dropout: float = 0.0
    drop_path: float = 0.0


# Dropout on a residual branch drops single elements (Srivastava et al. 2014,
# https://jmlr.org/papers/v15/srivastava14a.html) or the whole branch of a sample (Huang et al. 2016,
# https://arxiv.org/abs/1603.09382).


class Branch(Component):
    """Dropout, then drop path; a surviving branch is scaled up, so that the mean stays."""

    def __init__(self, d_model: int, num_sublayers: int, *, dropout: float, drop_path: float) -> None:
        super().__init__()
        for name, value in (("dropout", dropout), ("drop_path", drop_path)):
            if not 0.0 <= value < 1.0:
                raise UsageError(f"{name}={value} is not a probability below 1: choose 0 <= {name} < 1")
        self.d_model, self.num_sublayers, self.dropout, self.drop_path = d_model, num_sublayers, dropout, drop_path

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        if not self.training:
            return x
        x = F.dropout(x, self.dropout)
        if self.drop_path == 0.0:
            return x
        keep = 1.0 - self.drop_path
        return x * torch.empty(len(x), 1, 1, dtype=x.dtype, device=x.device).bernoulli_(keep).div_(keep)

    def costs(self, query: CostContext) -> Costs:
        elements = query.length * self.d_model * (self.dropout > 0) + (self.drop_path > 0)
        return Costs.of(self, activation_bytes=self.num_sublayers * elements * query.bytes_per_element)
