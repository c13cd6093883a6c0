"""Experts as references hold them in memory: stacked, while files hold them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from headtohead.pretrained.decoder_family import DecoderFamily
from headtohead.pretrained.deepseek_v3 import DeepseekV3Family
from headtohead.pretrained.llama_descendants import MixtralFamily
from headtohead.pretrained.model_family import Hub, ModelFamily
from headtohead.pretrained.qwen3_moe import Qwen3MoeFamily
from headtohead.pretrained.qwen3_next import Qwen3NextFamily
from headtohead.pretrained.weight_mapping import FusedWeights, WeightMapping, Weights


class InMemory(DecoderFamily):
    """The reference stacks the experts, which its files hold one by one."""

    def experts(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        experts = [f"{ours}.{expert}" for expert in range(hub[self.experts_field])]
        parts = tuple(f"{expert}.{name}.weight" for expert in experts for name in ("gate", "up"))
        yield Stacked(parts, f"{theirs}.gate_up_proj")
        yield Stacked(tuple(f"{expert}.down.weight" for expert in experts), f"{theirs}.down_proj")


class MixtralInMemory(InMemory, MixtralFamily):
    """Mixtral, whose feed-forward has another name in files."""

    feedforward_place = "mlp"


class DeepseekInMemory(InMemory, DeepseekV3Family):
    """The same of DeepSeek-V3."""


class Qwen3MoeInMemory(InMemory, Qwen3MoeFamily):
    """The same of Qwen3's models with experts."""


class Qwen3NextInMemory(InMemory, Qwen3NextFamily):
    """The same of Qwen3-Next."""


IN_MEMORY: Mapping[str, ModelFamily] = {
    family.model_type: family
    for family in (MixtralInMemory(), DeepseekInMemory(), Qwen3MoeInMemory(), Qwen3NextInMemory())
}


class Stacked(FusedWeights):
    """Matrices below one another, over two axes."""

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        rows = theirs[self.their_name].flatten(0, 1)
        return dict(zip(self.our_names, rows.chunk(len(self.our_names)), strict=True))

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        rows = torch.cat([ours[name] for name in self.our_names])
        experts = {name.rpartition(".experts.")[2].partition(".")[0] for name in self.our_names}
        return {self.their_name: rows.unflatten(0, (len(experts), -1))}
