"""A mixer with a local one before it: a short convolution or a token shift shows every token its neighbours first
(Poli et al. 2023, https://arxiv.org/abs/2302.10866; Arora et al. 2023, https://arxiv.org/abs/2312.04927).

A bidirectional mixer made of two recurrences, one for each direction, as in bidirectional recurrent networks
(Schuster and Paliwal 1997, https://doi.org/10.1109/78.650093); their outputs are added.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Grid, Mixer, MixerFactory, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.identity import Identity
from headtohead.components.sequence_ops.ragged_rows import reordered, reversed_order
from headtohead.errors import UsageError


@dataclass
class LocalThenMixerState(State):
    """The states of both mixers between decoding steps."""

    local: State = field(default_factory=State)
    mixer: State = field(default_factory=State)


class LocalThenMixer(Mixer):
    """mixer(local(x))."""

    def __init__(self, local: Mixer, mixer: Mixer) -> None:
        super().__init__()
        self.local, self.mixer, self.causal = local, mixer, mixer.causal

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return nothing, since both mixers report their own kernels."""
        del device, dtype
        return ""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        y: Tensor = self.mixer(self.local(x, context), context)
        return y

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> LocalThenMixerState:
        local, mixer = (
            part.initial_state(batch_size, max_length, device=device, dtype=dtype) for part in (self.local, self.mixer)
        )
        return LocalThenMixerState(local=local, mixer=mixer)

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], LocalThenMixerState]:
        assert isinstance(state, LocalThenMixerState), "a state comes from initial_state"
        h, state.local = self.local.step(x, state.local, context)
        y, state.mixer = self.mixer.step(h, state.mixer, context)
        return y, state

    def costs(self, query: CostContext) -> Costs:
        return self.local.costs(query) + self.mixer.costs(query)

    def saves_output(self, query: CostContext) -> bool:
        return self.mixer.saves_output(query)


def with_local_first(local: Mixer, mixer: Mixer) -> Mixer:
    """Put a local mixer in front; return the mixer itself where there is none."""
    return mixer if isinstance(local, Identity) else LocalThenMixer(local, mixer)


class Bidirectional(Mixer):
    """forward(x) + reversed(backward(reversed(x))), the real tokens of every row reversed."""

    can_be_causal = False

    def __init__(self, forwards: Mixer, backwards: Mixer) -> None:
        super().__init__()
        self.causal = False
        self.forwards, self.backwards = forwards, backwards

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return nothing, since its directions report their own kernels."""
        del device, dtype
        return ""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        order = reversed_order(context.valid, x.shape[1], x.device)
        y = self.backwards(reordered(x, order), _read_in(order, context))
        output: Tensor = self.forwards(x, _one_way(context)) + reordered(y, order)
        return output

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        del batch_size, max_length, device, dtype
        raise UsageError("a mixer that reads both ways cannot decode step by step: use a causal one")

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        del x, state, context
        raise UsageError("a mixer that reads both ways cannot decode step by step: use a causal one")

    def costs(self, query: CostContext) -> Costs:
        """Return the costs. Nothing is carried from token to token, since no token is final before the last one is
        read. Reversing saves the order, and the row twice."""
        both = self.forwards.costs(query) + self.backwards.costs(query)
        return replace(both, state_elements=0, activation_bytes=both.activation_bytes + 8 * (query.length + 2))


class BidirectionalWithMaps(Bidirectional, HasAttentionMaps):
    """One whose directions can name their weights: heads of the one, then of the other."""

    sums_to_one = False

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        order = reversed_order(context.valid, x.shape[1], x.device)
        forwards, backwards = self._directions()
        there = forwards.attention(x, _one_way(context))
        back = backwards.attention(reordered(x, order), _read_in(order, context))
        weights = torch.cat((there, _turned(back, order)), dim=1)
        return weights.tril() if causal else weights

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        order = reversed_order(context.valid, x.shape[1], x.device)
        forwards, backwards = self._directions()
        there, back = weights.chunk(2, dim=1)
        y = backwards.mixed(_turned(back, order), reordered(x, order), _read_in(order, context))
        return forwards.mixed(there, x, _one_way(context)) + reordered(y, order)

    def _directions(self) -> tuple[HasAttentionMaps, HasAttentionMaps]:
        assert isinstance(self.forwards, HasAttentionMaps) and isinstance(self.backwards, HasAttentionMaps)
        return self.forwards, self.backwards


def bidirectional_mixer(forwards: Mixer, backwards: Mixer) -> Bidirectional:
    """Combine two mixers of the same class."""
    kind = BidirectionalWithMaps if isinstance(forwards, HasAttentionMaps) else Bidirectional
    return kind(forwards, backwards)


def directed_mixer(
    mixer: MixerFactory,
    *,
    d_model: int,
    num_heads: int,
    causal: bool,
    dropout: float,
    max_length: int | None,
    grid: Grid | None,
) -> Mixer:
    """Build a mixer for this direction: two recurrences where both sides are to be visible."""
    make = partial(mixer, d_model, num_heads=num_heads, causal=causal, dropout=dropout)
    if _class_of(mixer).needs_length or _class_of(mixer).reads_grid:
        make = partial(make, max_length=max_length)
    if _class_of(mixer).reads_grid:
        make = partial(make, grid=grid)
    made = make()
    return bidirectional_mixer(made, make()) if made.reads_one_way and not causal else made


def _class_of(mixer: MixerFactory) -> type[Mixer]:
    """Return the class that the factory builds; a plain function builds a mixer of no special needs."""
    made = mixer.func if isinstance(mixer, partial) else mixer
    return made if isinstance(made, type) else Mixer


def _one_way(context: Context) -> Context:
    """Return what one direction may know; masks and biases are for mixers with scores."""
    return replace(context, causal=True, rotation=None, allowed=None, bias=None)


def _read_in(order: Int[Tensor, "#B L"], context: Context) -> Context:
    def turned(of_tokens: Tensor | None) -> Tensor | None:
        if of_tokens is None:
            return None
        return reordered(of_tokens.expand(max(len(of_tokens), len(order)), -1), order)

    return replace(_one_way(context), segments=turned(context.segments), positions=turned(context.positions))


def _turned(weights: Float[Tensor, "B H L M"], order: Int[Tensor, "#B L"]) -> Float[Tensor, "B H L M"]:
    """Reverse the order of queries and keys."""
    by_query = reordered(weights.transpose(1, 2), order).transpose(1, 2)
    return reordered(by_query.permute(0, 3, 1, 2), order).permute(0, 2, 3, 1)
