"""Replay the parts of a training step with fake tensors, which have shapes and no numbers: what each part saves, what
it holds at its peak, and which operations it does.

Blocks that are alike are replayed once, so that eighty layers cost no more than two. Everything is replayed for two
numbers of rows and is a line between them; long rows are replayed at shorter lengths (replayed_lengths.py).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import get_args

import torch
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.ledger import Ledger
from headtohead.architectures.vocabulary_heads import VocabularyHead
from headtohead.components.block import Block
from headtohead.components.checkpointing import offload
from headtohead.components.component import Context
from headtohead.components.without_memory import with_packing
from headtohead.data.batches.batch import Batch
from headtohead.estimates.fake_tensors import (
    FakeHost,
    Note,
    PlannedWorkspace,
    byte_size,
    differentiated,
    fake_tensors,
    forget_values,
    packing_of,
    pass_through,
    resized_batch,
    scored_share,
    tensors_of,
    with_gradients,
)
from headtohead.estimates.replayed_lengths import replayed_lengths, weights_at
from headtohead.estimates.work_meter import (
    ADDING,
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
    WorkMeter,
    above_blocks,
    combined,
    held_at,
)
from headtohead.tasks.chunked_cross_entropy import CHUNK_ELEMENTS
from headtohead.tasks.task import Task
from headtohead.training.loop.precision import Precision

_TOKENS = 4096
"""Tokens of the fewer rows that are replayed: of much fewer, a block's peak is that of its weights' gradients."""
_MANY_ROWS = 2**20
_EXACT_ROWS = 8
_CPU = torch.device("cpu")


class StepReplay:
    """The parts of the training step of a model without memory, on rows like those of a batch."""

    def __init__(
        self, model: Architecture, task: Task, batch: Batch, costs: Ledger, precision: Precision, *, device: str = "cpu"
    ) -> None:
        """The model has no weights left after this that anybody could use; `device` is the type of the one planned
        for, whose buffers are larger or smaller."""
        images = None if batch.images is None else batch.images.to(precision.of_weights)
        self._model, self._task, self._batch, self._precision = model, task, replace(batch, images=images), precision
        self._costs, self._device = costs, device
        self._losses: dict[int, Figures] = {}
        self._known_losses: dict[int, Figures] = {}
        self._scored_share, self._packing = scored_share(batch), packing_of(batch)
        model.train()
        forget_values(model)

    @cached_property
    def parts(self) -> tuple[StepPart, ...]:
        """Return the parts before the loss: the ends, then all kinds of blocks."""
        lengths = self._lengths
        if len(lengths) == 1:
            return self._parts_at(self._length)
        weights = weights_at(self._length, lengths)
        at_lengths = [self._parts_at(own) for own in lengths]
        return tuple(_joined(same, weights) for same in zip(*at_lengths, strict=True))

    def loss_at(self, rows: int) -> Figures:
        """Return the figures of the head with its loss: exact for few rows, then on lines between powers of two while
        the logits fit a chunk, then on one line."""
        if rows not in self._known_losses:
            self._known_losses[rows] = self._loss_between(rows)
        return self._known_losses[rows]

    def _loss_between(self, rows: int) -> Figures:
        first = self._first_chunked
        if rows <= _EXACT_ROWS:
            return self._loss_replayed(rows)
        if rows <= 2 * first:
            low = 2 ** (rows.bit_length() - 1)
            high = min(2 * low, 2 * first)
            share = (rows - low) / (high - low) if high > low else 0.0
            return combined([(1 - share, self._loss_replayed(low)), (share, self._loss_replayed(high))])
        return combined(
            [(2 - rows / first, self._loss_replayed(first)), (rows / first - 1, self._loss_replayed(2 * first))]
        )

    def _loss_replayed(self, rows: int) -> Figures:
        if rows not in self._losses:
            task = deepcopy(self._task).train()
            with fake_tensors(self._precision), with_packing(self._packing):
                batch = resized_batch(self._batch, rows, self._length)
                with self._passing_blocks(lambda *_: None), torch.no_grad():
                    output = self._model.features(**batch.inputs())
                self._losses[rows] = self._loss(task, batch, output)
        return self._losses[rows]

    def batch_bytes(self, rows: int) -> float:
        """Return the bytes of a batch of so many rows."""
        return sum(map(byte_size, tensors_of(self._batch))) / self._batch.num_samples * rows

    @cached_property
    def _first_chunked(self) -> int:
        """Return the first number of rows whose logits take several chunks."""
        head = self._model.head
        if not isinstance(head, VocabularyHead):
            return _MANY_ROWS
        chunk = CHUNK_ELEMENTS.get(self._device, CHUNK_ELEMENTS["cpu"])
        scored = max(1.0, self._scored_share * max(1, self._length))
        return max(2, math.ceil(2 * chunk / (scored * head.weight.shape[0])))

    @property
    def _length(self) -> int:
        return self._batch.tokens.shape[1] if self._batch.tokens is not None else 0

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return replayed_lengths(self._model, self._costs.size)

    @cached_property
    def _fewer_rows(self) -> int:
        """Return the fewer of the two numbers of rows, the same at all lengths: of shorter ones at least as many tokens
        as one whole row has, since the peak of few tokens is that of the weights' gradients."""
        shortest = self._lengths[0]
        few = max(2, min(self._batch.num_samples // 2, _TOKENS // max(1, shortest)))
        return few if len(self._lengths) == 1 else max(few, -(-self._length // shortest))

    def _parts_at(self, length: int) -> tuple[StepPart, ...]:
        few = self._fewer_rows
        rows = (few, 2 * few if few > 2 else 3)
        fewer, more = (self._captured(number, length) for number in rows)
        parts = [StepPart(self._model, ("",), rows, fewer.ends, more.ends)]
        alike: dict[object, list[str]] = defaultdict(list)
        flows = self._flows(fewer)
        for path in fewer.blocks:
            alike[(flows[path], self._signature(path, fewer))].append(path)
        for same in alike.values():
            block = self._model.get_submodule(same[0])
            few_inputs, more_inputs = fewer.blocks[same[0]], more.blocks[same[0]]
            replayed = {
                kind: (
                    self._block(block, few_inputs, kind, flows[same[0]]),
                    self._block(block, more_inputs, kind, flows[same[0]]),
                )
                for kind in self._savings
            }
            few_figures, more_figures = replayed.pop("all")
            is_trained = any(flows[same[0]]) or _is_trained(block)
            parts.append(StepPart(block, tuple(same), rows, few_figures, more_figures, replayed, is_trained))
        return tuple(parts)

    def _flows(self, capture: _Capture) -> dict[str, tuple[bool, bool]]:
        """Return of each block whether gradients are taken of what it reads and of its memory: nothing below what is
        trained has any."""
        trained: dict[str, bool] = defaultdict(bool)
        flows: dict[str, tuple[bool, bool]] = {}
        for path, (x, context) in capture.blocks.items():
            stack = path.rpartition(".blocks.")[0]
            memory = context.memory is not None and (
                context.memory.requires_grad
                or any(is_trained for other, is_trained in trained.items() if other != stack)
            )
            flows[path] = (x.requires_grad or trained[stack], memory)
            trained[stack] |= any(flows[path]) or _is_trained(self._model.get_submodule(path))
        return flows

    @property
    def offloads(self) -> bool:
        """Return whether the device has another memory to move activations to."""
        return self._device != "cpu"

    @property
    def _savings(self) -> tuple[Saving, ...]:
        return get_args(Saving) if self.offloads else ("all", "recompute_mixers")

    def _signature(self, path: str, capture: _Capture) -> object:
        """Return what blocks must share to be alike: classes, shapes of weights and inputs, and costs."""
        block = self._model.get_submodule(path)
        types = tuple((name, type(module)) for name, module in block.named_modules())
        shapes = tuple((name, weight.shape, weight.requires_grad) for name, weight in block.named_parameters())
        rows = tuple((row.kind, row.costs) for row in self._costs.rows if row.path.startswith(f"{path}."))
        return types, shapes, capture.blocks[path][0].shape, rows

    def _captured(self, rows: int, length: int) -> _Capture:
        """Return what the blocks read, and the figures of all but them and the loss."""
        blocks: dict[str, tuple[Tensor, Context]] = {}
        held: dict[Key, float] = {}
        above: dict[Key, float] = {}
        with fake_tensors(self._precision), with_packing(self._packing):
            batch = resized_batch(self._batch, rows, length)

            def features(meter: WorkMeter) -> Tensor:
                def note(path: str, x: Tensor, context: Context) -> None:
                    blocks[path] = (meter.unseen_like(x), context)
                    held[held_at(path), None] = float(meter.bytes())
                    if x.requires_grad:
                        x.register_hook(reached)

                def reached(_: Tensor) -> None:
                    for name, peak in ((PEAK, meter.peak), (ADDING, meter.peak_adding)):
                        above.setdefault((above_blocks(name), None), float(peak))

                with self._passing_blocks(note):
                    return self._model.features(**batch.inputs())

            ends = self._measured(features, self._model)
        if blocks:  # the contexts are still held here
            ends[LEFT, None] = 0.0
        if not above:  # nothing below the blocks is trained
            above = {(above_blocks(name), None): ends.of(name) for name in (PEAK, ADDING)}
        return _Capture(blocks, Figures({**ends, **held, **above}))

    @contextmanager
    def _passing_blocks(self, note: Note) -> Iterator[None]:
        """Have the blocks note what they read, and return it."""
        blocks = {path: module for path, module in self._model.named_modules() if isinstance(module, Block)}
        for path, block in blocks.items():
            block.forward = pass_through(path, block, note)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for block in blocks.values():
                del block.forward

    def _loss(self, task: Task, batch: Batch, output: Tensor) -> Figures:
        def loss(meter: WorkMeter) -> Tensor:
            if hasattr(task, "workspace"):
                vars(task)["workspace"] = PlannedWorkspace(meter, self._device)
            return task.loss(self._model, batch).total

        leaf = output.detach().requires_grad_(_is_trained(self._model, besides=self._model.head))
        self._model.features = lambda **_: leaf  # type: ignore[method-assign]
        try:
            return self._measured(loss, self._model, leaf)
        finally:
            del self._model.features

    def _block(
        self, block: nn.Module, inputs: tuple[Tensor, Context], saving: Saving, flows: tuple[bool, bool]
    ) -> Figures:
        with fake_tensors(self._precision), with_packing(self._packing):
            x, context = inputs
            leaf = x.detach().requires_grad_(flows[0])
            own = with_gradients(context, of_memory=flows[1])
            if saving == "offload":
                host = FakeHost()
                moving = partial(offload, block, leaf, own, away=host.away, back=host.back)
                figures = self._measured(lambda _: moving(), block, leaf, own)
                return Figures({**figures, (MOVED, None): float(host.num_bytes)})
            again = saving == "recompute_mixers"
            return self._measured(lambda _: block(leaf, own, recompute_mixers=again), block, leaf, own)

    def _measured(self, forward: Callable[[WorkMeter], Tensor], module: nn.Module, *inputs: object) -> Figures:
        """Return the figures of a forward pass and its backward pass."""
        meter = WorkMeter(
            self._scored_share,
            [*module.parameters(), *module.buffers(), *self._model.buffers(), *tensors_of(inputs)],
            device=self._device,
        )
        learning = [weight for weight in module.parameters() if weight.requires_grad]
        hooks = [weight.register_post_accumulate_grad_hook(meter.added) for weight in learning]
        with meter:
            output = forward(meter)
            saved, forward_peak = meter.bytes(), meter.peak
            meter.phase, meter.peak, meter.peak_adding = "backward", saved, saved
            out_bytes = byte_size(output)
            if not output.requires_grad and module is not self._model:
                saved -= out_bytes  # of which the next part saves none, or the first that is trained what `ends` holds
            number = differentiated(output) if output.requires_grad else None
            del output
            if number is not None:
                number.backward()
                del number
            left, peak = meter.bytes(), meter.peak
        for hook in hooks:
            hook.remove()
        weights = [weight for weight in learning if weight.grad is not None]
        gradients = sum(byte_size(weight.grad) for weight in weights if weight.grad is not None)
        of_inputs = sum(
            byte_size(tensor.grad) for tensor in tensors_of(inputs) if tensor.is_leaf and tensor.grad is not None
        )
        for tensor in (*weights, *tensors_of(inputs)):
            tensor.grad = None
        figures = {
            SAVED: saved, OUTPUT: out_bytes, FORWARD: forward_peak, PEAK: peak,
            ADDING: meter.peak_adding, GRADIENTS: gradients,
            LEFT: max(0, left - gradients - of_inputs),
        }  # fmt: skip
        own: dict[Key, float] = {(name, None): float(value) for name, value in figures.items()}
        return Figures({**own, **meter.work})


@dataclass(frozen=True)
class _Capture:
    blocks: Mapping[str, tuple[Tensor, Context]]
    """The inputs that each block reads."""
    ends: Figures


def _is_trained(module: nn.Module, besides: nn.Module | None = None) -> bool:
    others = set() if besides is None else {id(weight) for weight in besides.parameters()}
    return any(weight.requires_grad for weight in module.parameters() if id(weight) not in others)


def _joined(same: tuple[StepPart, ...], weights: list[float]) -> StepPart:
    """Return one part at a length, from those at others."""

    def at(figures: list[Figures]) -> Figures:
        return combined(list(zip(weights, figures, strict=True)))

    first = same[0]
    others = {
        kind: (at([part.others[kind][0] for part in same]), at([part.others[kind][1] for part in same]))
        for kind in first.others
    }
    return replace(first, fewer=at([part.fewer for part in same]), more=at([part.more for part in same]), others=others)
