"""Experts as references hold them in memory: stacked, while files hold them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from headtohead.pretrained.deepseek_v3 import DeepseekV3Family
from headtohead.pretrained.mistral import MixtralFamily
from headtohead.pretrained.model_family import Hub
from headtohead.pretrained.weight_mapping import FusedWeights, Renamed, WeightMapping, Weights


class InMemory(MixtralFamily):
    """The reference stacks the experts, which its files hold one by one."""

    def feedforward(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        experts = [f"{ours}.feedforward.experts.{number}" for number in range(hub["num_local_experts"])]
        yield Renamed(f"{ours}.feedforward.router.weight", f"{theirs}.mlp.gate.weight")
        yield from stacked(experts, f"{theirs}.mlp.experts")


class DeepseekInMemory(DeepseekV3Family):
    """The same for DeepSeek-V3."""

    def experts(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        return stacked([f"{ours}.{number}" for number in range(hub["n_routed_experts"])], theirs)


def stacked(experts: Sequence[str], theirs: str) -> Iterator[WeightMapping]:
    """Gates and ups of all experts, and downs."""
    parts = tuple(f"{expert}.{name}.weight" for expert in experts for name in ("gate", "up"))
    yield Stacked(parts, f"{theirs}.gate_up_proj")
    yield Stacked(tuple(f"{expert}.down.weight" for expert in experts), f"{theirs}.down_proj")


class Stacked(FusedWeights):
    """Matrices below one another, over two axes."""

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        rows = theirs[self.their_name].flatten(0, 1)
        return dict(zip(self.our_names, rows.chunk(len(self.our_names)), strict=True))

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        rows = torch.cat([ours[name] for name in self.our_names])
        experts = {name.rpartition(".experts.")[2].partition(".")[0] for name in self.our_names}
        return {self.their_name: rows.unflatten(0, (len(experts), -1))}
