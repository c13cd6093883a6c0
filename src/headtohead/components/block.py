"""One block: a mixer, where there is a memory a cross mixer, and mostly a feed-forward, wired to the stream; and the
contracts of the parts around the mixer: norms, feed-forwards and residual schemes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.checkpointing import recompute
from headtohead.components.component import Component, Context, CostQuery, Costs, CrossMixer, Mixer, State
from headtohead.components.feedforwards import NoFeedForward
from headtohead.errors import UsageError


class Norm(Component):
    """Normalises each token; it sees other tokens only as `context` allows (or, as batch norm, by statistics of all
    valid tokens)."""

    keeps_statistics: ClassVar[bool] = False
    """True where training updates running statistics, which recomputation must not do twice."""

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

    needs_final_norm: ClassVar[bool]
    """True where the stream leaves the last block without a norm."""
    has_stream: ClassVar[bool] = True
    """False where sublayers follow each other without one."""
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

    def output_bytes(self, query: CostQuery) -> int:
        """Return the bytes of a sublayer's output where whatever reads it next saves that very tensor, else 0."""
        del query
        return 0


Sublayer = Callable[[Tensor], Tensor]


NormFactory = Callable[[int], Norm]


FeedForwardFactory = Callable[..., FeedForward]
"""feedforward(d_model, dropout=p)"""


ResidualSchemeFactory = Callable[..., ResidualScheme]
"""residual(norm, d_model, num_layers=N, num_sublayers=1, 2 or 3, dropout=p, drop_path=q)"""


# Dropout on a residual branch drops single elements (Srivastava et al. 2014,
# https://jmlr.org/papers/v15/srivastava14a.html) or the whole branch of a sample (Huang et al. 2016,
# https://arxiv.org/abs/1603.09382).


class Branch(Component):
    """Dropout, then drop path; a surviving branch is scaled up, so that the mean stays."""

    def __init__(self, d_model: int, num_sublayers: int, *, dropout: float, drop_path: float) -> None:
        super().__init__()
        for name, value in (("dropout", dropout), ("drop_path", drop_path)):
            if not 0.0 <= value < 1.0:
                raise UsageError(f"{name}={value} is no probability below 1: choose 0 <= {name} < 1")
        self.d_model, self.num_sublayers, self.dropout, self.drop_path = d_model, num_sublayers, dropout, drop_path

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        if not self.training:
            return x
        x = F.dropout(x, self.dropout)
        if self.drop_path == 0.0:
            return x
        keep = 1.0 - self.drop_path
        return x * torch.empty(len(x), 1, 1, dtype=x.dtype, device=x.device).bernoulli_(keep).div_(keep)

    def costs(self, query: CostQuery) -> Costs:
        elements = query.length * self.d_model * (self.dropout > 0) + (self.drop_path > 0)
        return Costs.of(self, activation_bytes=self.num_sublayers * elements * query.bytes_per_element)


@dataclass
class BlockState(State):
    """The states of the mixer, the feed-forward and the residual scheme between decoding steps."""

    mixer: State = field(default_factory=State)
    feedforward: State = field(default_factory=State)
    wiring: State = field(default_factory=State)


class Block(Component):
    """The sublayers in their order, handed to the wiring."""

    def __init__(
        self, mixer: Mixer, cross: CrossMixer | None, feedforward: FeedForward, wiring: ResidualScheme
    ) -> None:
        super().__init__()
        self.mixer, self.cross, self.feedforward, self.wiring = mixer, cross, feedforward, wiring

    def forward(
        self, x: Float[Tensor, "B L D"], context: Context, *, recompute_mixers: bool = False
    ) -> Float[Tensor, "B L D"]:
        def wrapped(mixer: Mixer | CrossMixer) -> Sublayer:
            if recompute_mixers:
                return lambda h: recompute(mixer, h, context)
            return lambda h: mixer(h, context)

        sublayers = [wrapped(mixer) for mixer in (self.mixer, self.cross) if mixer is not None]
        if self.has_feedforward:
            sublayers.append(lambda h: self.feedforward(h, context))
        y: Tensor = self.wiring(x, sublayers, context)
        return y

    @property
    def has_feedforward(self) -> bool:
        return not isinstance(self.feedforward, NoFeedForward)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> BlockState:
        """Return an empty state with room for `max_length` tokens."""
        return BlockState(
            mixer=self.mixer.initial_state(batch_size, max_length, device=device, dtype=dtype),
            feedforward=self.feedforward.initial_state(batch_size, device=device, dtype=dtype),
            wiring=self.wiring.initial_state(batch_size, device=device, dtype=dtype),
        )

    def read(self, context: Context) -> State:
        """Return what the cross mixer reads of the memory, once for all steps."""
        return State() if self.cross is None else self.cross.read(context)

    def step(
        self, x: Float[Tensor, "B L D"], state: BlockState, memory: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], BlockState]:
        """Process the next tokens, given the state of all before and what the cross mixer read of its memory."""

        def mix(h: Tensor) -> Tensor:
            y, state.mixer = self.mixer.step(h, state.mixer, context)
            return y

        def feed(h: Tensor) -> Tensor:
            y, state.feedforward = self.feedforward.step(h, state.feedforward, context)
            return y

        sublayers: list[Sublayer] = [mix]
        if (cross := self.cross) is not None:
            sublayers.append(lambda h: cross.step(h, memory, context))
        if self.has_feedforward:
            sublayers.append(feed)
        x, state.wiring = self.wiring.step(x, sublayers, state.wiring, context)
        return x, state

    def cost_rows(self, query: CostQuery) -> Iterator[tuple[str, Costs]]:
        """Yield each part's name and costs; an output that both its writer and its reader save counts once."""
        for name, part in self.named_children():
            assert isinstance(part, Component)
            costs = part.costs(query)
            if part.saves_output(query):
                costs = replace(costs, activation_bytes=costs.activation_bytes - self.wiring.output_bytes(query))
            yield name, costs

    def costs(self, query: CostQuery) -> Costs:
        return sum((costs for _, costs in self.cost_rows(query)), Costs())
