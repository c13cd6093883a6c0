"""Memory and time of one training step under a layout: the one place where both are computed.

Memory follows the step: the backward pass frees what a part saved and makes its gradients, from the loss to the first
block, and the most that there is at a time counts, or the update of the weights where that takes more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from torch import nn

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.ledger import Ledger
from headtohead.components.checkpointing import CheckpointingKind
from headtohead.components.component import Component
from headtohead.components.mixers.recurrent.torch_recurrence import Recurrence
from headtohead.components.stack import Stack
from headtohead.estimates.device_speed import DeviceSpeed
from headtohead.estimates.fake_step import StepReplay
from headtohead.estimates.layouts import Layout, MemoryUse, StepSeconds
from headtohead.estimates.optimizer_memory import OptimizerMemory
from headtohead.estimates.work_meter import (
    ADDING,
    BYTES,
    FLOPS,
    FORWARD,
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
    above_blocks,
    held_at,
)
from headtohead.training.loop.precision import Precision
from headtohead.training.memory import trained_bytes
from headtohead.training.run_components import TrainerSettings

_OVERLAP = 0.9
"""The share of a device's arithmetic under which messages can be hidden."""


_SAVING: Mapping[CheckpointingKind, Saving] = {"attention": "recompute_mixers", "offload": "offload"}


@dataclass(frozen=True)
class _Pass:
    """A block as a token passes it."""

    part: StepPart
    path: str
    index: int
    """Its number within its stack, and of all passes before where there are loops."""
    is_last: bool = True
    """Whether it is passed for the last time."""


@dataclass(frozen=True)
class _Owned:
    """Bytes of a part's own weights on a device, once layers are divided."""

    weights: float
    trained: float
    bases: float
    """Bytes that the optimizer keeps of some weights beyond those of all."""


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
        self._optimizer, self._of_optimizer = optimizer, OptimizerMemory(model, optimizer)
        self._known_weights: dict[int, tuple[_Owned, dict[StepPart, _Owned]]] = {}
        self._known_figures: dict[tuple[StepPart, int, Saving, int], Figures] = {}

    # Memory.

    def memory(self, layout: Layout, rows: int) -> MemoryUse:
        """Return the bytes of one device that reads so many rows at once."""
        root, owned = self._weights(layout.tensor_parallel)
        whole, shared = [root, *(owned[one.part] for one in self._blocks)], layout.shards
        weights, trained = sum(part.weights for part in whole), sum(part.trained for part in whole)
        averaging, bases = self._settings.weight_averaging, sum(part.bases for part in whole)
        more = self._of_optimizer.updating() / shared
        fixed = trained_bytes(weights / shared, trained / shared, self._optimizer, averaging, bases, more)
        gradients = trained / shared
        in_buckets = trained if layout.sharding == "ddp" else 0.0
        most = max(self._backward_peaks(layout, rows, root, owned))
        held = fixed.weights + fixed.optimizer + in_buckets
        update = gradients + fixed.updating + self._replay.loss_at(rows).of(LEFT)
        total = held + self._replay.batch_bytes(rows * layout.accumulate) + max(most, update)
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
        is_shared, is_moved = layout.shards > 1, layout.recomputed == "offload" and self._replay.offloads
        left = loss.of(LEFT) + sum(figures[one.part].of(LEFT) for one in self._passes)
        saved = [self._saved(figures[one.part], layout, one.index) for one in self._passes]
        made = before = self._accumulated(layout, root, owned)
        gathered = self._gathered(layout, root, owned)
        below = sum(saved) + ends.of(SAVED)
        peak = ADDING if layout.accumulate > 1 and not is_shared else PEAK
        yield from self._forward_peaks(layout, rows, owned, before + gathered + left)
        yield left - loss.of(LEFT) + below + max(loss.of(FORWARD), loss.of(peak)) + made + gathered
        made += 0.0 if layout.accumulate > 1 and not is_shared else loss.of(GRADIENTS)
        yield left + sum(saved) + ends.of(above_blocks(peak)) + made + gathered
        below -= min(ends.of(SAVED), ends.of(OUTPUT) * (2 if is_moved else 1))  # what the blocks read is away, too
        for one, own in zip(reversed(self._passes), reversed(saved), strict=True):
            below -= own
            at_work, block = figures[one.part], owned[one.part]
            in_flight = 2 * block.weights if is_shared else 0.0
            if one.part.is_trained:
                again = at_work.of(FORWARD) + at_work.of(OUTPUT) if layout.covers_block(one.index) else 0.0
                at_peak = max(at_work.of(peak), again) - at_work.of(LEFT)
                yield left + below + at_peak + gathered + in_flight + made
            if layout.accumulate == 1 or is_shared:
                made += block.trained / layout.shards if layout.accumulate == 1 and one.is_last else 0.0
            if layout.sharding == "grad_op":
                gathered -= block.weights
        there = made if all(part.is_trained for part in self.kinds_of_blocks) else before
        yield left + ends.of(peak) + there + gathered

    def _forward_peaks(
        self, layout: Layout, rows: int, owned: dict[StepPart, _Owned], beside: float
    ) -> Iterator[float]:
        """Yield what there is while each part is passed: what the model holds then, the block's input among it, and
        what all blocks before have saved."""
        ends = self._replay.parts[0].at(rows)
        yield ends.of(FORWARD) + beside
        saved = 0.0
        for one in self._passes:
            figures = self._figures(one.part, layout, rows)
            in_flight = 2 * owned[one.part].weights if layout.shards > 1 else 0.0
            at_peak = figures.of(FORWARD) - figures.of(LEFT) + in_flight
            yield ends.of(held_at(one.path)) + saved + at_peak + beside
            saved += self._saved(figures, layout, one.index)

    def _accumulated(self, layout: Layout, root: _Owned, owned: dict[StepPart, _Owned]) -> float:
        """Return the gradients of the parts of a batch that were read before."""
        if layout.accumulate == 1:
            return 0.0
        return (root.trained + sum(owned[one.part].trained for one in self._blocks)) / layout.shards

    def _gathered(self, layout: Layout, root: _Owned, owned: dict[StepPart, _Owned]) -> float:
        """Return the weights that are whole from the forward pass on: the outermost, and all where they stay."""
        if layout.shards == 1:
            return 0.0
        stays = sum(owned[one.part].weights for one in self._blocks) if layout.sharding == "grad_op" else 0.0
        return root.weights + stays

    def _saved(self, figures: Figures, layout: Layout, index: int) -> float:
        if layout.recomputed == "offload" and self._replay.offloads:
            return max(0.0, figures.of(SAVED) - figures.of(OUTPUT))
        return min(figures.of(OUTPUT), figures.of(SAVED)) if layout.covers_block(index) else figures.of(SAVED)

    def _offloaded(self, layout: Layout, rows: int) -> float:
        """Return the bytes that all blocks move to the processor's memory in one forward pass."""
        return sum(self._figures(one.part, layout, rows).of(MOVED) for one in self._blocks)

    def _figures(self, part: StepPart, layout: Layout, rows: int) -> Figures:
        """Return a block's figures, less where several devices divide its layers."""
        saving, parts = _SAVING.get(layout.recomputed, "all"), layout.tensor_parallel
        key = part, rows, saving, parts
        if key not in self._known_figures:
            figures = part.at(rows, saving)
            is_on_gpu = saving == "all" and part.is_trained and self._replay.offloads
            whole = self._with_workspaces(part, figures, rows) if is_on_gpu else figures
            self._known_figures[key] = self._divided(part, whole, parts)
        return self._known_figures[key]

    def _with_workspaces(self, part: StepPart, figures: Figures, rows: int) -> Figures:
        """Return the figures with what a kernel of a recurrent layer saves on a GPU, as the ledger has it: the replay
        runs those of the processor."""
        if not any(isinstance(module, Recurrence) for module in part.module.modules()):
            return figures
        path = f"{part.paths[0]}."
        own = sum(row.costs.activation_bytes for row in self._costs.rows if row.path.startswith(path))
        turns = sum(one.part is part for one in self._passes) / len(part.paths)
        declared = rows * own / turns
        missing = max(0.0, declared - figures.of(SAVED))
        more: dict[Key, float] = {(name, None): figures.of(name) + missing for name in (SAVED, FORWARD, PEAK, ADDING)}
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
        whole = [root, *(owned[one.part] for one in self._blocks)]
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
            indices = [one.index for one in self._passes if one.part is part]
            again = sum(layout.covers_block(index) for index in indices) if part.is_trained else 0
            parts.append((self._figures(part, layout, rows), float(len(indices)), float(again)))
        total = launches = 0.0
        for figures, times, repeats in parts:
            for kind, (count, flops, num_bytes) in figures.operations().items():
                repeated = times + (repeats if kind.phase == "forward" else 0.0)
                total += repeated * speed.seconds(kind, count, flops, num_bytes)
                launches += repeated * count * max(1, layout.tensor_parallel) * speed.launch
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
            for one in self._blocks:
                times = 6 if layout.covers_block(one.index) else 4
                num_bytes = one.part.at(rows).of(OUTPUT) * self._activation_width / max(4, self._width)
                streams += times * speed.exchanged(num_bytes, layout.tensor_parallel, passes=2, spans_nodes=False)
        return hidden, streams * layout.accumulate

    # Weights.

    @cached_property
    def kinds_of_blocks(self) -> tuple[StepPart, ...]:
        """Return the blocks, those that are alike as one."""
        return self._replay.parts[1:]

    @cached_property
    def _blocks(self) -> list[_Pass]:
        """All blocks in the order of the forward pass."""
        by_path = {path: part for part in self.kinds_of_blocks for path in part.paths}
        paths = [path for path, _ in self._model.named_modules() if path in by_path]
        return [_Pass(by_path[path], path, int(re.findall(r"\d+", path)[-1])) for path in paths]

    @cached_property
    def _passes(self) -> list[_Pass]:
        """All blocks as often as a token passes them."""
        stacks = [module for module in self._model.modules() if isinstance(module, Stack)]
        blocks = iter(self._blocks)
        passes: list[_Pass] = []
        for stack in stacks:
            own = list(islice(blocks, stack.num_layers))
            for turn in range(stack.loops):
                first, is_last = turn * stack.num_layers, turn == stack.loops - 1
                passes += [replace(one, index=first + one.index, is_last=is_last) for one in own]
        return [*passes, *blocks]

    def _weights(self, parts: int) -> tuple[_Owned, dict[StepPart, _Owned]]:
        """Return what a device has of weights in no block, and of each kind of block, where so many divide layers."""
        if parts not in self._known_weights:
            owned = {part: self._owned(part.module, parts) for part in self.kinds_of_blocks}
            whole, of_blocks = self._owned(self._model, parts), [owned[one.part] for one in self._blocks]
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
            bases += self._of_optimizer.more(weight)
        return _Owned(weights, trained, bases)


def _divides(module: nn.Module) -> bool:
    return any(isinstance(part, Component) and part.tensor_parallel_plan() is not None for part in module.modules())


def _divided_weights(part: nn.Module) -> Iterator[nn.Parameter]:
    split = part.tensor_parallel_plan() if isinstance(part, Component) else None
    if split is not None:
        for name in (*split.column_wise, *split.row_wise):
            yield from part.get_submodule(name).parameters()
