"""RWKV-4 (Peng et al. 2023, https://arxiv.org/abs/2305.13048): time mixing and channel mixing, both with a glance at
the token before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_description import check_describable
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, ModelFamily, flag, multiple
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping, renamed

TIME_MIXING = (
    "time_decay", "time_first", "time_mix_key", "time_mix_value", "time_mix_receptance", "key.weight", "value.weight",
    "receptance.weight", "output.weight",
)  # fmt: skip
CHANNEL_MIXING = ("time_mix_key", "time_mix_receptance", "key.weight", "receptance.weight", "value.weight")
EPS = 1e-5
"""The epsilon of the last norm, whatever config.json has for the others."""


class RwkvFamily(ModelFamily):
    """Layer norms, one of them after the embedding, and no positions."""

    model_type = "rwkv"
    architectures: ClassVar[Architectures] = {"RwkvForCausalLM": "language_model", "RwkvModel": None}
    length_field = "context_length"
    prefix = "rwkv."
    heads = ("head.",)
    table = "rwkv.embeddings.weight"
    head_matrix = "head.weight"
    defaults: ClassVar[Hub] = {
        "attention_hidden_size": None,
        "intermediate_size": None,
        "layer_norm_epsilon": EPS,
        "rescale_every": 6,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {"layer_norm_epsilon": (EPS,)}
    parts: ClassVar[Mapping[str, str]] = {
        "mixer": "Rwkv4",
        "position": "NoPosition",
        "norm": "LayerNorm",
        "residual": "PreNorm",
        "feedforward": "RwkvChannelMix",
    }

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        if 0 < (hub["rescale_every"] or 0) <= hub["num_hidden_layers"]:
            yield (
                f"its stream is not halved every {hub['rescale_every']} layers (rescale_every), which sets outputs "
                "apart by what the eps of its norms weighs"
            )

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width = hub["hidden_size"]
        return [
            "model=decoder_only",
            "model/mixer=rwkv4",
            "model/position=none",
            "model/norm=layer_norm",
            "model/residual=pre",
            "model/feedforward=rwkv_channel_mix",
            "model.embedding_norm=true",
            f"model.d_model={width}",
            "model.num_heads=1",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['layer_norm_epsilon']}",
            f"model.mixer.expand={(hub['attention_hidden_size'] or width) / width}",
            multiple(hub["intermediate_size"] or 4 * width, width),
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", self.table)
        yield from renamed("stack.embedding_norm", "rwkv.blocks.0.pre_ln")
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"rwkv.blocks.{layer}"
            for index in (0, 1):
                yield from renamed(f"{ours}.wiring.norms.{index}", f"{theirs}.ln{index + 1}")
            for name in TIME_MIXING:
                yield Renamed(f"{ours}.mixer.{name}", f"{theirs}.attention.{name}")
            for name in CHANNEL_MIXING:
                yield Renamed(f"{ours}.feedforward.{name}", f"{theirs}.feed_forward.{name}")
        yield from renamed("stack.final_norm", "rwkv.ln_out")

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        self.check_parts(model)
        words = {"pattern": (None,), "local": (None, "Identity"), "embedding_norm": (True,), "head_bias": (False,)}
        check_describable(
            model, "rwkv", {**words, "scale_embedding": (False,), "norm.eps": (EPS,), "norm.bias": (None, True)}
        )
        width = model["d_model"]
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "hidden_size": width,
            "attention_hidden_size": int(model["mixer"]["expand"] * width),
            "intermediate_size": round(model["feedforward"]["multiple"] * width),
            "num_hidden_layers": model["num_layers"],
            "vocab_size": model["vocab_size"],
            "context_length": model["max_length"] or 1024,
            "layer_norm_epsilon": EPS,
            "tie_word_embeddings": model["tie_weights"],
        }
