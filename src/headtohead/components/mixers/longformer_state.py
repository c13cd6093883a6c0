"""What a causal Longformer carries from one decoding step to the next: its window, and the global tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from headtohead.components.contracts import Context
from headtohead.components.mixers.placed_state import PlacedState


@dataclass
class LongformerState(PlacedState):
    """The window's keys and values, and those of the global tokens: as others see them, and as they see each other."""

    seen: PlacedState = field(default_factory=PlacedState)
    own: PlacedState = field(default_factory=PlacedState)
    fewest: int = 0
    """At least so many real tokens does every row have; the global ones come first."""

    def read(self, context: Context, length: int) -> None:
        super().read(context, length)
        self.seen.count = self.own.count = self.count
        if context.valid is None:
            self.fewest += length
        elif length > 1:  # a prompt
            self.fewest += int(context.valid.sum(1).min())
