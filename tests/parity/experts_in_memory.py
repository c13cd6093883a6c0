"""Experts as references hold them in memory: stacked, while files hold them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from headtohead.pretrained.decoder_family import DecoderFamily
from headtohead.pretrained.deepseek_v3 import DeepseekV3Family
from headtohead.pretrained.kimi_linear import KimiLinearFamily
from headtohead.pretrained.llama_descendants import MixtralFamily
from headtohead.pretrained.mamba_hybrids import JambaFamily
from headtohead.pretrained.model_family import Hub, ModelFamily
from headtohead.pretrained.qwen3_moe import Qwen3MoeFamily
from headtohead.pretrained.qwen3_next import Qwen3NextFamily
from headtohead.pretrained.weight_mapping import FusedWeights, Renamed, Reshaped, WeightMapping, Weights


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


class KimiLinearInMemory(InMemory, KimiLinearFamily):
    """The same of Kimi Linear, whose feed-forwards have one name in memory, and whose convolutions are one."""

    def convolution(self, hub: Hub, ours: str, theirs: str) -> WeightMapping:
        del hub
        return Renamed(ours, f"{theirs}.conv1d.weight")

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        return DeepseekV3Family.feedforward_pieces(self, hub, layer, ours, theirs)

    def mixer_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        for piece in super().mixer_pieces(hub, layer, ours, theirs):
            if isinstance(piece, Renamed | Reshaped):
                piece = replace(piece, their_name=_within_forget_gate(piece.their_name))
            yield piece


def _within_forget_gate(name: str) -> str:
    """Return the name in memory of a weight that makes the decays."""
    stem, _, part = name.partition(".self_attn.")
    inside = part.partition(".")[0] in ("f_a_proj", "f_b_proj", "dt_bias", "A_log")
    return f"{stem}.self_attn.forget_gate.{part}" if inside else name


class JambaInMemory(InMemory, JambaFamily):
    """The same of Jamba."""


class Qwen3MoeInMemory(InMemory, Qwen3MoeFamily):
    """The same of Qwen3's models with experts."""


class Qwen3NextInMemory(InMemory, Qwen3NextFamily):
    """The same of Qwen3-Next."""


IN_MEMORY: Mapping[str, ModelFamily] = {
    family.model_type: family
    for family in (
        MixtralInMemory(),
        DeepseekInMemory(),
        KimiLinearInMemory(),
        JambaInMemory(),
        Qwen3MoeInMemory(),
        Qwen3NextInMemory(),
    )
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
