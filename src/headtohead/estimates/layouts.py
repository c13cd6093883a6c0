"""The ways in which one run can be laid out over devices, and what each is called on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from headtohead.components.checkpointing import CheckpointingKind

Sharding = Literal["single", "ddp", "full", "grad_op", "hybrid"]
"""One device; a copy on each; weights, gradients and optimizer shared by all; the same but weights, once gathered, stay
until the backward pass (ZeRO-2); shared within a machine and copied between machines."""
SHARDED: tuple[Sharding, ...] = ("full", "grad_op", "hybrid")
RECOMPUTED: tuple[CheckpointingKind, ...] = ("none", "attention", "every_k", "full", "offload")


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

    def overrides(self) -> tuple[str, ...]:
        """Return what you type to train so."""
        words = []
        if self.devices > 1:
            kind = "ddp" if self.sharding == "ddp" else "fsdp"
            words += [f"trainer={kind}", f"trainer.devices={min(self.devices, self.per_node)}"]
        if self.spans_nodes:
            words.append(f"trainer.num_nodes={-(-self.devices // self.per_node)}")
        if self.tensor_parallel > 1:
            words.append(f"trainer.tensor_parallel={self.tensor_parallel}")
        if self.sharding == "grad_op":
            words.append("trainer.reshard=false")
        if self.sharding == "hybrid":
            words.append(f"trainer.shard_among={self.shards}")
        if self.recomputed != "none":
            words.append(f"checkpointing={self.recomputed}")
        if self.recomputed == "every_k" and self.every != 2:
            words.append(f"checkpointing.every={self.every}")
        if self.accumulate > 1:
            words.append(f"trainer.accumulate={self.accumulate}")
        return tuple(words)


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


def layout_of(config: Mapping[str, Any]) -> Layout:
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
