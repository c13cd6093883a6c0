"""The ways in which one run can be laid out over devices, what the command line calls each, and what it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from headtohead.components.checkpointing import CheckpointingKind
from headtohead.config.run_config import Node

Sharding = Literal["single", "ddp", "full", "grad_op", "hybrid"]
"""One device; a copy on each; weights, gradients and optimizer shared by all; the same but weights, once gathered, stay
until the backward pass (ZeRO-2); shared within a machine and copied between machines."""
SHARDED: tuple[Sharding, ...] = ("full", "grad_op", "hybrid")
RECOMPUTED: tuple[CheckpointingKind, ...] = ("none", "attention", "every_k", "full", "offload")

_PERIOD = "2"
"""The period of checkpointing=every_k where none is typed."""


@dataclass(frozen=True)
class Layout:
    """Devices, and what they share of a model and of a batch."""

    devices: int = 1
    per_node: int = 1
    """Devices of one machine."""
    sharding: Sharding = "single"
    tensor_parallel: int = 1
    recomputed: CheckpointingKind = "none"
    """The part that the backward pass computes again, or the activations that are offloaded."""
    every: int = 2
    """The period of recomputed=every_k."""
    accumulate: int = 1

    @property
    def replicas(self) -> int:
        """Return how many devices, or groups of them that divide layers, take a share of each batch."""
        return self.devices // self.tensor_parallel

    @property
    def shards(self) -> int:
        """Return among how many devices each weight is shared, besides the division of layers."""
        if self.sharding == "hybrid":
            return max(1, min(self.devices, self.per_node) // self.tensor_parallel)
        return self.replicas if self.sharding in SHARDED else 1

    @property
    def spans_nodes(self) -> bool:
        return self.devices > self.per_node

    def covers_block(self, index: int) -> bool:
        """Return whether a block is recomputed as a whole."""
        return self.recomputed == "full" or (self.recomputed == "every_k" and index % self.every == 0)

    def with_parts(self, accumulate: int) -> Layout:
        return replace(self, accumulate=accumulate)

    def overrides(self, typed: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Return what one types to train so, after what was typed for a configuration of these `fields_of`."""
        own, before = self.fields(), {**Layout().fields(), **(typed or {})}
        own.setdefault("checkpointing.every", _PERIOD)  # another is refused where it is not read
        words = [f"{name}={value}" for name, value in own.items() if before.get(name, _PERIOD) != value]
        if (
            words[:1] == [f"trainer={own['trainer']}"] and self.devices > 1
        ):  # a group's choice brings devices of its own
            words[1:] = [f"trainer.devices={own['trainer.devices']}", *words[1:]]
        return tuple(dict.fromkeys(words))

    def fields(self) -> dict[str, str]:
        """Return the groups and fields of a configuration that make the layout, each with its value as one types it."""
        fields = {
            "trainer": "auto" if self.devices == 1 else "ddp" if self.sharding == "ddp" else "fsdp",
            "trainer.devices": str(min(self.devices, self.per_node)),
            "trainer.num_nodes": str(-(-self.devices // self.per_node)),
            "trainer.tensor_parallel": str(self.tensor_parallel),
            "trainer.reshard": str(self.sharding != "grad_op").lower(),
            "trainer.shard_among": str(self.shards) if self.sharding == "hybrid" else "null",
            "checkpointing": self.recomputed,
            "trainer.accumulate": str(self.accumulate),
        }
        return {**fields, "checkpointing.every": str(self.every)} if self.recomputed == "every_k" else fields


def fields_of(config: Node) -> dict[str, str]:
    """Return what `Layout.fields` names as a configuration has it."""
    trainer, checkpointing = config["trainer"], config["checkpointing"]
    among, every = trainer["shard_among"], checkpointing.get("every")
    fields = {
        "trainer": {"single": "auto", "ddp": "ddp"}.get(trainer["strategy"], "fsdp"),
        **{f"trainer.{name}": str(trainer[name]) for name in ("devices", "num_nodes", "tensor_parallel", "accumulate")},
        "trainer.reshard": str(trainer["reshard"]).lower(),
        "trainer.shard_among": "null" if among is None else str(among),
        "checkpointing": checkpointing["kind"],
    }
    return fields if every is None else {**fields, "checkpointing.every": str(every)}


def layouts(devices: int, per_node: int, *, offloads: bool = True) -> Iterator[Layout]:
    """Yield all ways over so many devices, the plainest first; each with all its rows read at once. `offloads` is
    whether the devices have a memory beside the processor's."""
    node = min(devices, per_node)
    ways: list[tuple[Sharding, int]] = [("single", 1)] if devices == 1 else [("ddp", 1), ("full", 1), ("grad_op", 1)]
    if devices > per_node:
        ways.append(("hybrid", 1))
    parts = 2
    while devices > 1 and parts <= node:
        if node % parts == 0:
            ways.append(("full", parts))
        parts *= 2
    for sharding, tensor_parallel in ways:
        for recomputed in RECOMPUTED:
            if recomputed != "offload" or (offloads and tensor_parallel == 1):
                yield Layout(devices, per_node, sharding, tensor_parallel, recomputed)


def layout_of(config: Node) -> Layout:
    """Return the layout that a configuration names."""
    trainer, checkpointing = config["trainer"], config["checkpointing"]
    devices, nodes = trainer["devices"], trainer["num_nodes"]
    sharding: Sharding = "single" if devices * nodes == 1 else "ddp"
    if trainer["strategy"] == "model_parallel":
        among = trainer["shard_among"]
        whole = among is None or among * trainer["tensor_parallel"] == devices * nodes
        sharding = "hybrid" if not whole else "full" if trainer["reshard"] else "grad_op"
    return Layout(
        devices=devices * nodes,
        per_node=trainer["shard_among"] or devices,
        sharding=sharding,
        tensor_parallel=trainer["tensor_parallel"],
        recomputed=checkpointing["kind"],
        every=checkpointing["every"] if checkpointing["kind"] == "every_k" else 2,
        accumulate=trainer["accumulate"],
    )


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of tensors of one device at the step's peak."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    """The bytes that autograd saves and those being computed, at the peak, beside the three."""
    host: float = 0.0
    """The bytes of the processor's memory to which this device offloads; not among the device's own."""

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations


@dataclass(frozen=True)
class StepSeconds:
    """Seconds of one optimizer step, by what they are for."""

    computing: float
    exchanging: float
    """The seconds of messages that no arithmetic hides."""
    updating: float
    offloading: float = 0.0
    """The seconds in which activations move to the processor's memory and back, which nothing hides."""

    @property
    def total(self) -> float:
        return self.computing + self.exchanging + self.updating + self.offloading
