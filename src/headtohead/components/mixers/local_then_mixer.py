"""A mixer with a local one before it: a short convolution or a token shift shows every token its neighbours first
(Poli et al. 2023, https://arxiv.org/abs/2302.10866; Arora et al. 2023, https://arxiv.org/abs/2312.04927)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostQuery, Costs
from headtohead.components.mixers.identity import Identity


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

    def costs(self, query: CostQuery) -> Costs:
        return self.local.costs(query) + self.mixer.costs(query)

    def saves_output(self, query: CostQuery) -> bool:
        return self.mixer.saves_output(query)


def with_local_first(local: Mixer, mixer: Mixer) -> Mixer:
    """Put a local mixer in front; return the mixer itself where there is none."""
    return mixer if isinstance(local, Identity) else LocalThenMixer(local, mixer)
