"""Experts as references hold them in memory: stacked, while files hold them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from headtohead.pretrained.deepseek_v3 import DeepseekV3Family
from headtohead.pretrained.llama_descendants import MixtralFamily
from headtohead.pretrained.model_family import Hub, ModelFamily
from headtohead.pretrained.qwen3_next import Qwen3NextFamily
from headtohead.pretrained.weight_mapping import FusedWeights, Renamed, WeightMapping, Weights


class InMemory(MixtralFamily):
    """The reference stacks the experts, which its files hold one by one."""

    def feedforward(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield Renamed(f"{ours}.feedforward.router.weight", f"{theirs}.mlp.gate.weight")
        yield from stacked(hub["num_local_experts"], f"{ours}.feedforward.experts", f"{theirs}.mlp.experts")


class DeepseekInMemory(DeepseekV3Family):
    """The same of DeepSeek-V3."""

    def experts(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        return stacked(hub["n_routed_experts"], ours, theirs)


class Qwen3NextInMemory(Qwen3NextFamily):
    """The same of Qwen3-Next."""

    def experts(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        return stacked(hub["num_experts"], f"{ours}.experts", f"{theirs}.experts")


IN_MEMORY: Mapping[str, ModelFamily] = {
    "mixtral": InMemory(), "deepseek_v3": DeepseekInMemory(), "qwen3_next": Qwen3NextInMemory(),
}  # fmt: skip


def stacked(number: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
    """Yield the weights of a layer's experts as two tensors: gates with ups, and downs."""
    experts = [f"{ours}.{expert}" for expert in range(number)]
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
