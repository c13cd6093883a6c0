"""minGRU one token at a time."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.mixers import min_gru as fast
from headtohead.components.mixers.reference.gated_recurrence import states_one_by_one


class MinGru(fast.MinGru):
    """The same parameters and gates; every state is made of the one before."""

    def states(
        self,
        log_decay: Float[Tensor, "B L E"],
        inputs: Float[Tensor, "B L E"],
        begins: Bool[Tensor, "B L"] | None,
        start: Float[Tensor, "B E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        return states_one_by_one(log_decay, inputs, begins, start)
