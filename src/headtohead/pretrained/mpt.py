"""MPT (MosaicML 2023, https://github.com/mosaicml/llm-foundry)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, InexpressibleError, ModelFamily, flag
from headtohead.pretrained.weight_mapping import FusedInBlocks, Renamed, WeightMapping

_ATTENTION = {
    "attn_type": ("multihead_attention",),
    "clip_qkv": (None,),
    "qk_ln": (False,),
    "prefix_lm": (False,),
    "alibi": (True,),
    "attn_uses_sequence_id": (False,),
}
"""Fields of `attn_config` with the values that we can express."""


class MptFamily(ModelFamily):
    """Scores that fall with distance, and no bias anywhere."""

    model_type = "mpt"
    architectures: ClassVar[Architectures] = {
        "MptForCausalLM": "language_model",
        "MPTForCausalLM": "language_model",
        "MptModel": None,
        "MptForSequenceClassification": None,
        "MptForTokenClassification": None,
        "MptForQuestionAnswering": None,
    }
    length_field = "max_seq_len"
    prefix = "transformer."
    heads = ("lm_head.", "score.", "classifier.", "qa_outputs.")
    table = "transformer.wte.weight"
    defaults: ClassVar[Hub] = {
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0,
        "attn_config": {},
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {"no_bias": (True,), "expansion_ratio": (4,), "logit_scale": (None,)}
    synonyms: ClassVar[Mapping[str, str]] = {
        "hidden_size": "d_model",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
    }
    parts: ClassVar[Mapping[str, str]] = {
        "mixer": "SoftmaxAttention",
        "position": "Alibi",
        "norm": "LayerNorm",
        "residual": "PreNorm",
        "feedforward": "DenseFeedForward",
    }

    def complete(self, config: Mapping[str, object]) -> Hub:
        hub = super().complete(config)
        attention = hub["attn_config"]
        for field, values in _ATTENTION.items():
            if field in attention and attention[field] not in values:
                raise InexpressibleError(
                    f"its config.json has attn_config.{field}={attention[field]}, and our mpt supports only "
                    f"{values[0]}: "
                    "choose another checkpoint"
                )
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        attention = hub["attn_config"]
        scale = attention.get("softmax_scale")
        return [
            "model=decoder_only",
            "model/mixer=softmax_attention",
            "model/position=alibi",
            "model/norm=layer_norm",
            "model/residual=pre",
            "model/feedforward=gelu",
            f"model.d_model={hub['d_model']}",
            f"model.num_layers={hub['n_layers']}",
            f"model.num_heads={hub['n_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['layer_norm_epsilon']}",
            "model.norm.bias=false",
            "model.mixer.bias=false",
            f"model.mixer.scale={'null' if scale is None else scale}",
            f"model.position.halvings={float(attention.get('alibi_bias_max', 8))}",
            "model.feedforward.bias=false",
            f"model.dropout={hub['resid_pdrop']}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        if (bias_max := hub["attn_config"].get("alibi_bias_max", 8)) != 8:
            yield f"its alibi_bias_max={bias_max} is honoured here, and transformers takes it for 8"

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", self.table)
        for layer in range(hub["n_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"transformer.blocks.{layer}"
            yield Renamed(f"{ours}.wiring.norms.0.weight", f"{theirs}.norm_1.weight")
            yield Renamed(f"{ours}.wiring.norms.1.weight", f"{theirs}.norm_2.weight")
            fused = tuple(f"{ours}.mixer.{name}.weight" for name in ("query", "key", "value"))
            yield FusedInBlocks(fused, f"{theirs}.attn.Wqkv.weight")
            yield Renamed(f"{ours}.mixer.output.weight", f"{theirs}.attn.out_proj.weight")
            yield Renamed(f"{ours}.feedforward.up.weight", f"{theirs}.ffn.up_proj.weight")
            yield Renamed(f"{ours}.feedforward.down.weight", f"{theirs}.ffn.down_proj.weight")
        yield Renamed("stack.final_norm.weight", "transformer.norm_f.weight")

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        self.check_parts(model)
        halvings = model["position"]["halvings"]
        if halvings != int(halvings):
            raise InexpressibleError(f"model.position.halvings is {halvings}, and mpt has whole numbers")
        attention = {
            "alibi": True,
            "alibi_bias_max": int(halvings),
            "softmax_scale": model["mixer"]["scale"],
            "attn_pdrop": 0,
        }
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "d_model": model["d_model"],
            "n_layers": model["num_layers"],
            "n_heads": model["num_heads"],
            "max_seq_len": model["max_length"],
            "vocab_size": model["vocab_size"],
            "layer_norm_epsilon": model["norm"]["eps"],
            "attn_config": attention,
            **dict.fromkeys(("resid_pdrop", "emb_pdrop"), model["dropout"]),
            "tie_word_embeddings": model["tie_weights"],
        }
