"""The costs of a stack's position encodings depend on which layers read them, how often, and what is recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headtohead.components.block import Block
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.component import Position
from headtohead.components.costs import CostContext, Costs
from headtohead.components.stack_parts import sees_window, sharing_scores


@dataclass(frozen=True)
class EncodingReaders:
    """The encodings of a stack, one or one for each layer, with the layers that read them."""

    positions: Sequence[Position]
    layers: Sequence[Block]
    loops: int
    checkpointing: Checkpointing

    @property
    def _is_shared(self) -> bool:
        return self.positions[0].shared_by_layers

    @property
    def _held(self) -> list[bool]:
        """Return of every pass of a layer whether its mixer is recomputed, and thus holds the context that it reads."""
        return [self.checkpointing.recomputes_mixer(number) for number in range(len(self.layers) * self.loops)]

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield path, kind and costs of every encoding; the first has the masks that all layers share."""
        mask = self._bytes_of_held_mask(query)
        for index, position in enumerate(self.positions):
            costs = self._costs(index, position, query)
            costs = replace(costs, activation_bytes=costs.activation_bytes + (mask if index == 0 else 0))
            yield f"positions.{index}", "position", costs

    def _costs(self, index: int, position: Position, query: CostContext) -> Costs:
        sharing = sharing_scores(self.layers if self._is_shared else self.layers[index : index + 1])
        is_saved = any(mixer.saves_shared_bias for mixer in sharing)
        costs = self._of_encoding(position, query if is_saved else replace(query, biased_heads=0))
        held = self._held if self._is_shared else self._held[index :: len(self.layers)]
        saved = costs.activation_bytes
        if not self._is_shared:  # every pass makes its own
            costs, saved = costs.passed(self.loops), saved * self.loops
        if query.biased_heads and not sharing:  # each mixer declares the biases that it makes
            saved = 0
        elif position.bias_reads_queries:  # which are made in the mixer
            saved = saved // self.loops * held.count(False)
        elif query.biased_heads and not (is_saved and query.bytes_per_biased_pair):
            num_biases = any(held) if self._is_shared else sum(held)
            saved += num_biases * query.biased_heads * query.length**2 * query.bytes_per_element
        return replace(costs, activation_bytes=saved)

    def _of_encoding(self, position: Position, query: CostContext) -> Costs:
        """Return the costs of an encoding and of that in windows, where layers read it; what none reads saves
        nothing."""
        in_windows, see_windows = position.in_windows(), [sees_window(block) for block in self.layers]
        if in_windows is None or not any(see_windows):
            return position.costs(query)
        read = [in_windows] if all(see_windows) else [position, in_windows]
        return sum((encoding.costs(query) for encoding in read), Costs())

    def _bytes_of_held_mask(self, query: CostContext) -> int:
        """Return the bytes of the mask of allowed pairs that recomputed parts hold, and of the same as numbers to add
        where no bias was added to them."""
        share_scores = [bool(sharing_scores([block])) for block in self.layers]
        if not (query.biased_heads and any(share_scores) and any(self._held)):
            return 0
        reads_queries = self.positions[0].bias_reads_queries
        passes = zip(self._held, share_scores * self.loops, strict=True)
        holds_numbers = not self._is_shared and any(held and (reads_queries or not shares) for held, shares in passes)
        return query.length**2 * (1 + (query.bytes_per_element if holds_numbers else 0))
