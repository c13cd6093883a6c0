"""Memory and time of one training step under a layout: the one place where both are computed.

Memory follows the step: the backward pass frees what a part saved and makes its gradients, from the loss to the first
block, and the most that there is at a time counts, or the update of the weights where that takes more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from torch import nn

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.ledger import Ledger
from headtohead.components.checkpointing import CheckpointingKind
from headtohead.components.component import Component
from headtohead.components.stack import Stack
from headtohead.estimates.device_speed import DeviceSpeed
from headtohead.estimates.fake_step import StepReplay
from headtohead.estimates.layouts import Layout, MemoryUse, StepSeconds
from headtohead.estimates.work_meter import (
    BYTES,
    FLOPS,
    GRADIENTS,
    LEFT,
    MOVED,
    OUTPUT,
    PEAK,
    SAVED,
    Figures,
    Key,
    Saving,
    StepPart,
)
from headtohead.training.loop.precision import Precision
from headtohead.training.memory import basis_numbers, trained_bytes
from headtohead.training.run_components import TrainerSettings

_UNSEEN = 0.05
"""The share of what a block declares to save that is not rounding if the replay does not show it."""
_OVERLAP = 0.9
"""The share of a device's arithmetic under which messages can be hidden."""


_SAVING: Mapping[CheckpointingKind, Saving] = {"attention": "recompute_mixers", "offload": "offload"}


@dataclass(frozen=True)
class _Owned:
    """Bytes of a part's own weights on a device, once layers are divided."""

    weights: float
    trained: float
    bases: float
    """Bytes that the optimizer has for the dimensions of weights."""


class LayoutCosts:
    """Costs of one run under any layout, for any number of rows that a device reads at once."""

    def __init__(
        self,
        model: Architecture,
        replay: StepReplay,
        costs: Ledger,
        settings: TrainerSettings,
        precision: Precision,
        optimizer: Mapping[str, object],
    ) -> None:
        """`optimizer` is its part of the configuration."""
        self._model, self._replay, self._costs = model, replay, costs
        self._settings, self._width = settings, precision.of_weights.itemsize
        self._activation_width = precision.bytes_per_element
        self._optimizer = optimizer
        self._known_weights: dict[int, tuple[_Owned, dict[StepPart, _Owned]]] = {}
        self._known_figures: dict[tuple[StepPart, int, Saving, int], Figures] = {}

    # Memory.

    def memory(self, layout: Layout, rows: int) -> MemoryUse:
        """Return the bytes of one device that reads so many rows at once."""
        root, owned = self._weights(layout.tensor_parallel)
        whole = [root, *(owned[part] for part, _ in self._blocks)]
        weights, trained = sum(part.weights for part in whole), sum(part.trained for part in whole)
        shared = layout.shards
        averaging, bases = self._settings.weight_averaging, sum(part.bases for part in whole)
        fixed = trained_bytes(weights / shared, trained / shared, self._optimizer, averaging, bases)
        gradients = trained / shared
        in_buckets = trained if layout.sharding == "ddp" else 0.0
        most = max(self._backward_peaks(layout, rows, root, owned))
        held = fixed.weights + fixed.optimizer + in_buckets
        update = gradients + fixed.updating + self._replay.loss_at(rows).of(LEFT)
        total = held + max(most, update)
        activations = max(0.0, total - held - gradients)
        return MemoryUse(
            fixed.weights, gradients + in_buckets, fixed.optimizer, activations, self._offloaded(layout, rows)
        )

    def _backward_peaks(
        self, layout: Layout, rows: int, root: _Owned, owned: dict[StepPart, _Owned]
    ) -> Iterator[float]:
        """Yield what there is beside weights and optimizer while each part is differentiated, from the last on."""
        loss, ends = self._replay.loss_at(rows), self._replay.parts[0].at(rows)
        figures = {part: self._figures(part, layout, rows) for part in self.kinds_of_blocks}
        is_shared = layout.shards > 1
        left = loss.of(LEFT) + sum(figures[part].of(LEFT) for part, *_ in self._passes)
        saved = [self._saved(figures[part], layout, index) for part, index, _ in self._passes]
        made = before = self._accumulated(layout, root, owned)
        gathered = self._gathered(layout, root, owned)
        below = sum(saved) + ends.of(SAVED)
        yield left - loss.of(LEFT) + below + loss.of(PEAK) + made + gathered
        made += 0.0 if layout.accumulate > 1 and not is_shared else loss.of(GRADIENTS)
        below -= ends.of(OUTPUT)
        for (part, _, is_last), own in zip(reversed(self._passes), reversed(saved), strict=True):
            below -= own
            at_work = figures[part]
            block = owned[part]
            in_flight = 2 * block.weights if is_shared else 0.0
            at_peak = at_work.of(PEAK) - at_work.of(LEFT) + gathered + in_flight
            if part.is_trained:
                yield left + below + at_peak - at_work.of(OUTPUT) + made
            else:  # a forward pass alone, in which the input is there that nothing saves
                yield left + below + at_peak + at_work.of(OUTPUT) + before
            if layout.accumulate == 1 or is_shared:
                made += block.trained / layout.shards if layout.accumulate == 1 and is_last else 0.0
            if layout.sharding == "grad_op":
                gathered -= block.weights
        there = made if all(part.is_trained for part in self.kinds_of_blocks) else before
        yield left + ends.of(PEAK) - ends.of(OUTPUT) + there + gathered

    def _accumulated(self, layout: Layout, root: _Owned, owned: dict[StepPart, _Owned]) -> float:
        """Return the gradients of the parts of a batch that were read before."""
        if layout.accumulate == 1:
            return 0.0
        return (root.trained + sum(owned[part].trained for part, _ in self._blocks)) / layout.shards

    def _gathered(self, layout: Layout, root: _Owned, owned: dict[StepPart, _Owned]) -> float:
        """Return the weights that are whole from the forward pass on: the outermost, and all where they stay."""
        if layout.shards == 1:
            return 0.0
        stays = sum(owned[part].weights for part, _ in self._blocks) if layout.sharding == "grad_op" else 0.0
        return root.weights + stays

    def _saved(self, figures: Figures, layout: Layout, index: int) -> float:
        if layout.recomputed == "offload" and self._replay.offloads:
            return max(0.0, figures.of(SAVED) - figures.of(OUTPUT))
        return min(figures.of(OUTPUT), figures.of(SAVED)) if layout.covers_block(index) else figures.of(SAVED)

    def _offloaded(self, layout: Layout, rows: int) -> float:
        """Return the bytes that all blocks move to the processor's memory in one forward pass."""
        return sum(self._figures(part, layout, rows).of(MOVED) for part, _ in self._blocks)

    def _figures(self, part: StepPart, layout: Layout, rows: int) -> Figures:
        """Return a block's figures, less where several devices divide its layers."""
        saving, parts = _SAVING.get(layout.recomputed, "all"), layout.tensor_parallel
        key = part, rows, saving, parts
        if key not in self._known_figures:
            figures = part.at(rows, saving)
            has_workspaces = saving == "all" and part.is_trained
            whole = self._with_workspaces(part, figures, rows) if has_workspaces else figures
            self._known_figures[key] = self._divided(part, whole, parts)
        return self._known_figures[key]

    def _with_workspaces(self, part: StepPart, figures: Figures, rows: int) -> Figures:
        """Return the figures with what a kernel saves in a workspace, which no fake tensor shows, as the ledger has
        it: those of recurrent layers."""
        path = f"{part.paths[0]}."
        own = sum(row.costs.activation_bytes for row in self._costs.rows if row.path.startswith(path))
        turns = sum(one is part for one, *_ in self._passes) / len(part.paths)
        declared = rows * own / turns
        missing = declared - figures.of(SAVED)
        if missing < _UNSEEN * declared:
            return figures
        more: dict[Key, float] = {(name, None): figures.of(name) + missing for name in (SAVED, PEAK)}
        return Figures({**figures, **more})

    def _divided(self, part: StepPart, figures: Figures, parts: int) -> Figures:
        less = self._inner_share(part) * (1 - 1 / parts) if parts > 1 else 0.0

        def divided(key: Key, value: float) -> float:
            name, kind = key
            if kind is not None:
                return value / parts if name in (FLOPS, BYTES) else value
            return value if name == OUTPUT else value * (1 - less)

        return figures if parts == 1 else Figures({key: divided(key, value) for key, value in figures.items()})

    def _inner_share(self, part: StepPart) -> float:
        """Return the share of a block's activations that lies within what is divided, beyond what each reads."""
        rows = [row for row in self._costs.rows if row.path.startswith(f"{part.paths[0]}.")]
        divided = {name for name, module in part.module.named_children() if _divides(module)}
        stream = part.at(1).of(OUTPUT)
        inner = sum(max(0.0, row.costs.activation_bytes - stream) for row in rows if row.kind in divided)
        return inner / max(1, sum(row.costs.activation_bytes for row in rows))

    # Time.

    def seconds(self, layout: Layout, rows: int, speed: DeviceSpeed) -> StepSeconds:
        """Return the time of a step in which each device reads so many rows at once, `layout.accumulate` times."""
        once, launches = self._pass_seconds(layout, rows, speed)
        computing = (max(once, launches) if speed.kind == "cuda" else once + launches) * layout.accumulate
        root, owned = self._weights(layout.tensor_parallel)
        whole = [root, *(owned[part] for part, _ in self._blocks)]
        weights, trained = sum(part.weights for part in whole), sum(part.trained for part in whole)
        hidden, bare = self._messages(layout, rows, speed, weights, trained)
        room = computing * _OVERLAP if speed.kind == "cuda" else 0.0
        averaging, bases = self._settings.weight_averaging, sum(part.bases for part in whole)
        fixed = trained_bytes(weights, trained / layout.shards, self._optimizer, averaging, bases)
        moved = fixed.moved + (3 * trained / layout.shards if self._settings.gradient_clip is not None else 0.0)
        updating = moved / speed.moves[-1][1]
        offloading = 2 * layout.accumulate * self._offloaded(layout, rows) / speed.host
        return StepSeconds(computing, max(0.0, hidden - room) + bare, updating, offloading)

    def _pass_seconds(self, layout: Layout, rows: int, speed: DeviceSpeed) -> tuple[float, float]:
        """Return the time of a forward and a backward pass by arithmetic and memory, and the time to launch it all."""
        parts = [(self._replay.loss_at(rows), 1.0, 0.0), (self._replay.parts[0].at(rows), 1.0, 0.0)]
        for part in self.kinds_of_blocks:
            indices = [index for own, index, _ in self._passes if own is part]
            again = sum(layout.covers_block(index) for index in indices) if part.is_trained else 0
            parts.append((self._figures(part, layout, rows), float(len(indices)), float(again)))
        total = launches = 0.0
        for figures, times, repeats in parts:
            for kind, (count, flops, num_bytes) in figures.operations().items():
                repeated = times + (repeats if kind.phase == "forward" else 0.0)
                total += repeated * speed.seconds(kind, count, flops, num_bytes)
                launches += (
                    repeated * count * (layout.tensor_parallel if layout.tensor_parallel > 1 else 1) * speed.launch
                )
        return total, launches

    def _messages(
        self, layout: Layout, rows: int, speed: DeviceSpeed, weights: float, trained: float
    ) -> tuple[float, float]:
        """Return the time of messages that can be hidden under arithmetic, and of those that it must wait for."""
        hidden = 0.0
        if layout.sharding == "ddp":
            hidden = speed.exchanged(trained, layout.replicas, passes=2, spans_nodes=layout.spans_nodes)
        elif layout.shards > 1:
            spans = layout.spans_nodes and layout.sharding != "hybrid"
            gathers = 1 if layout.sharding == "grad_op" else 2
            of_weights = speed.exchanged(weights, layout.shards, passes=1, spans_nodes=spans)
            of_gradients = speed.exchanged(trained, layout.shards, passes=1, spans_nodes=spans)
            hidden = layout.accumulate * (gathers * of_weights + of_gradients)
            copies = layout.replicas // layout.shards
            hidden += layout.accumulate * speed.exchanged(
                trained / layout.shards, copies, passes=2, spans_nodes=layout.spans_nodes
            )
        streams = 0.0
        if layout.tensor_parallel > 1:
            for part, index in self._blocks:
                times = 6 if layout.covers_block(index) else 4
                num_bytes = part.at(rows).of(OUTPUT) * self._activation_width / max(4, self._width)
                streams += times * speed.exchanged(num_bytes, layout.tensor_parallel, passes=2, spans_nodes=False)
        return hidden, streams * layout.accumulate

    # Weights.

    @cached_property
    def kinds_of_blocks(self) -> tuple[StepPart, ...]:
        """Return the blocks, those that are alike as one."""
        return self._replay.parts[1:]

    @cached_property
    def _blocks(self) -> list[tuple[StepPart, int]]:
        """All blocks in the order of the forward pass, with their numbers in their stacks."""
        by_path = {path: part for part in self.kinds_of_blocks for path in part.paths}
        paths = [path for path, _ in self._model.named_modules() if path in by_path]
        return [(by_path[path], int(re.findall(r"\d+", path)[-1])) for path in paths]

    @cached_property
    def _passes(self) -> list[tuple[StepPart, int, bool]]:
        """All blocks as often as a token passes them, numbered within their stack; whether it is for the last time."""
        stacks = [module for module in self._model.modules() if isinstance(module, Stack)]
        blocks = iter(self._blocks)
        passes: list[tuple[StepPart, int, bool]] = []
        for stack in stacks:
            own = list(islice(blocks, stack.num_layers))
            for turn in range(stack.loops):
                is_last = turn == stack.loops - 1
                passes += [(part, turn * stack.num_layers + index, is_last) for part, index in own]
        return [*passes, *((part, index, True) for part, index in blocks)]

    def _weights(self, parts: int) -> tuple[_Owned, dict[StepPart, _Owned]]:
        """Return what a device has of weights in no block, and of each kind of block, where so many divide layers."""
        if parts not in self._known_weights:
            owned = {part: self._owned(part.module, parts) for part in self.kinds_of_blocks}
            whole, of_blocks = self._owned(self._model, parts), [owned[part] for part, _ in self._blocks]
            root = _Owned(
                whole.weights - sum(own.weights for own in of_blocks),
                whole.trained - sum(own.trained for own in of_blocks),
                whole.bases - sum(own.bases for own in of_blocks),
            )
            self._known_weights[parts] = root, owned
        return self._known_weights[parts]

    def _owned(self, module: nn.Module, parts: int) -> _Owned:
        """Return the bytes of a module's weights on one of the devices that divide its layers."""
        divided = {id(weight) for part in module.modules() for weight in _divided_weights(part)}
        weights = trained = bases = 0.0
        for weight in module.parameters():
            num_bytes = weight.numel() * weight.element_size() / (parts if id(weight) in divided else 1)
            weights += num_bytes
            trained += num_bytes * weight.requires_grad
            bases += basis_numbers(self._optimizer, weight.shape) * weight.element_size() * weight.requires_grad
        return _Owned(weights, trained, bases)


def _divides(module: nn.Module) -> bool:
    return any(isinstance(part, Component) and part.tensor_parallel_plan() is not None for part in module.modules())


def _divided_weights(part: nn.Module) -> Iterator[nn.Parameter]:
    split = part.tensor_parallel_plan() if isinstance(part, Component) else None
    if split is not None:
        for name in (*split.column_wise, *split.row_wise):
            yield from part.get_submodule(name).parameters()
