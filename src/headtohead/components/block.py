"""One block: a mixer, where there is a memory a cross mixer, and mostly a feed-forward, wired to the stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.block_parts import FeedForward, ResidualScheme, Sublayer
from headtohead.components.checkpointing import recompute, recompute_with_values
from headtohead.components.component import Component, Context, CrossMixer, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import NoFeedForward


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
        def mix(h: Tensor) -> Tensor:
            y: Tensor = recompute_with_values(self.mixer, h, context) if recompute_mixers else self.mixer(h, context)
            return y

        sublayers: list[Sublayer] = [mix]
        if (cross := self.cross) is not None:
            sublayers.append(lambda h: recompute(cross, h, context) if recompute_mixers else cross(h, context))
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

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, Costs]]:
        """Yield each part's name and costs; an output that both its writer and its reader save counts once."""
        for name, part in self.named_children():
            assert isinstance(part, Component)
            costs = part.costs(query)
            if part.saves_output(query):
                costs = replace(costs, activation_bytes=costs.activation_bytes - self.wiring.output_bytes(query))
            yield name, costs

    def costs(self, query: CostContext) -> Costs:
        return sum((costs for _, costs in self.cost_rows(query)), Costs())
