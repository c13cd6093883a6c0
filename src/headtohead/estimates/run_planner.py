"""Plan one run under each layout: the rows that fit at once, the memory, and the time of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headtohead.architectures.ledger import Ledger, ledger
from headtohead.config.build import build_task, fitted, make_model
from headtohead.config.compose.steps_and_batches import in_steps
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import make
from headtohead.config.origins.from_weights import build_data
from headtohead.config.rules import compatibility
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import RunConfig
from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import order_of
from headtohead.data.data_source import DataSource
from headtohead.estimates.device_speed import DeviceSpeed
from headtohead.estimates.fake_step import StepReplay
from headtohead.estimates.fake_tensors import packing_of
from headtohead.estimates.layout_costs import LayoutCosts
from headtohead.estimates.layouts import Layout, MemoryUse, Sharding, StepSeconds, fields_of
from headtohead.tasks.task import Task
from headtohead.training.loop.precision import Precision
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.parallel.sharding import check_tensor_parallel_plans
from headtohead.training.run_components import TrainerSettings

_MOST_ROWS = 2**16
_BATCHES_READ = 4
_TRAINERS: Mapping[Sharding, str] = {
    "single": "auto", "ddp": "ddp", "full": "fsdp", "grad_op": "fsdp", "hybrid": "fsdp",
}  # fmt: skip


@dataclass(frozen=True)
class PlannedLayout:
    """One layout, with what it takes and gives; of one that cannot be, the reason."""

    layout: Layout
    overrides: tuple[str, ...]
    """The overrides that train with this layout."""
    reason: str | None
    """The reason why it cannot be; None where it can."""
    rows: int = 0
    """Rows that a device reads at once."""
    largest_rows: int = 0
    """The most that would fit."""
    memory: MemoryUse | None = None
    """The memory of a device, at its peak."""
    step: StepSeconds | None = None
    tokens_per_second: float = 0.0
    utilisation: float | None = None
    """The share of the devices' peak rate that is used, by the ledger's FLOPs; None where no data sheet tells the
    peak."""
    hours: float = 0.0
    price: float | None = None

    @property
    def fits(self) -> bool:
        return self.reason is None


class RunPlanner:
    """All layouts of one run share its model without memory, which is replayed once."""

    def __init__(self, config: Mapping[str, object], device: str) -> None:
        """`device` is the type of what is planned for: cpu or cuda."""
        if not ConfigView(config).trained_by_steps:
            raise ConfigurationError(
                f"{ConfigView(config).chosen('model')} is fitted to all its rows at once, and has no steps to be "
                "planned: h2h inspect shows its size, and h2h train fits it in seconds"
            )
        self._config = in_steps(config)
        self._typed = fields_of(self._config)
        data = build_data(self._config)
        filled, size = fitted(self._config, data)
        self.task = build_task(self._config, data.spec())
        self.precision: Precision = make(filled["precision"])
        self.settings: TrainerSettings = make(filled["trainer"])
        self.model = make_model(filled, "meta")
        self.batch = _widest_batch(self.task, data, self._config)
        sides = {"length": self.batch.tokens, "decoder_length": self.batch.decoder_tokens}
        lengths = {side: tokens.shape[1] for side, tokens in sides.items() if tokens is not None}
        self.costs: Ledger = ledger(self.model, replace(size, device=device, **lengths))
        self.model.to(self.precision.of_weights)
        optimizer = RunConfig(filled).optimizer
        replay = StepReplay(self.model, self.task, self.batch, self.costs, self.precision, device=device)
        self.layout_costs = LayoutCosts(self.model, replay, self.costs, self.settings, self.precision, optimizer)

    def why_not(self, layout: Layout) -> str | None:
        """Return why a run cannot have this layout, whatever the device; None where it can."""
        if self.batch.num_samples < layout.replicas:
            return f"a batch of {self.batch.num_samples} rows is fewer than its {layout.replicas} copies read"
        nodes = max(1, -(-layout.devices // layout.per_node))
        strategy = {"single": "single", "ddp": "ddp"}.get(layout.sharding, "model_parallel")
        trainer = {
            **RunConfig(self._config).trainer,
            "strategy": strategy,
            "devices": layout.devices // nodes,
            "num_nodes": nodes,
            "tensor_parallel": layout.tensor_parallel,
            "shard_among": layout.shards if layout.sharding == "hybrid" else None,
            "reshard": layout.sharding != "grad_op",
            "accelerator": "auto",
            "accumulate": layout.accumulate,
        }
        checkpointing = {**self._config["checkpointing"], "kind": layout.recomputed}
        chosen = {"trainer": _TRAINERS[layout.sharding], "checkpointing": layout.recomputed}
        choices = {**(self._config.get("choices") or {}), **chosen}
        planned = {**self._config, "trainer": trainer, "checkpointing": checkpointing, "choices": choices}
        try:
            compatibility.check(planned)
            if layout.tensor_parallel > 1:
                check_tensor_parallel_plans(self.model, layout.tensor_parallel)
        except ValueError as error:
            return str(error)
        return None

    def planned(
        self, layout: Layout, speed: DeviceSpeed, usable: float, *, steps: int, price: float | None
    ) -> PlannedLayout:
        """Return the layout with as many rows at once as fit."""
        reason = self.why_not(layout)
        if reason is not None:
            return PlannedLayout(layout, layout.overrides(self._typed), reason)
        share = -(-self.batch.num_samples // layout.replicas)
        largest = self._largest_rows(layout, usable)
        if not largest:
            return PlannedLayout(
                layout, layout.overrides(self._typed), "one row does not fit", memory=self._memory(layout, 1)
            )
        parts = -(-share // min(share, largest))
        while (-(-share // parts)) > max(1, self._largest_rows(layout.with_parts(parts), usable)) and parts < share:
            parts += 1
        layout, rows = layout.with_parts(parts), -(-share // parts)
        reason = self.why_not(layout)
        if reason is not None:
            return PlannedLayout(layout, layout.overrides(self._typed), reason)
        memory = self._memory(layout, rows)
        if memory.total > usable:
            return PlannedLayout(layout, layout.overrides(self._typed), "one row does not fit", memory=memory)
        step = self.layout_costs.seconds(layout, rows, speed)
        hours = step.total * steps / 3600
        peak = speed.peaks.get(self.precision.dtype)
        flops = self.costs.totals.training_flops_per_token * self.tokens_per_step
        return PlannedLayout(
            layout,
            layout.overrides(self._typed),
            None,
            rows=rows,
            largest_rows=largest,
            memory=memory,
            step=step,
            tokens_per_second=self.tokens_per_step / step.total,
            utilisation=None if not peak else flops / step.total / layout.devices / peak,
            hours=hours,
            price=None if price is None else hours * layout.devices * price,
        )

    @property
    def tokens_per_step(self) -> float:
        return float(self.batch.num_tokens or self.batch.num_samples)

    def _memory(self, layout: Layout, rows: int) -> MemoryUse:
        return self.layout_costs.memory(layout, rows)

    def _largest_rows(self, layout: Layout, usable: float) -> int:
        """Return the most rows that fit at once; 0 where not even one does."""
        fits, fails = 0, 1
        while fails <= _MOST_ROWS and self._memory(layout, fails).total <= usable:
            fits, fails = fails, 2 * fails
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if self._memory(layout, middle).total <= usable:
                fits = middle
            else:
                fails = middle
        return fits


def _widest_batch(task: Task, data: DataSource, config: Mapping[str, object]) -> Batch:
    """Return the batch with the longest rows, or else the longest documents in them, among those that the run reads
    first."""
    seed = seeds_of(RunConfig(config).seed).data_order
    split = data.split("train")
    order = order_of(split, batch_size=data.batch_size, seed=seed)
    batches: Sequence[Batch] = []
    for step in range(_BATCHES_READ):
        epoch, rows = order.step(step)
        batches = [*batches, task.training_view(split.batch(rows), seed=seed, epoch=epoch)]

    def size(batch: Batch) -> tuple[float, float]:
        packed = packing_of(batch)
        return sum(tensor.numel() for tensor in batch.inputs().values()), packed.per_row * packed.longest

    return max(batches, key=size)
