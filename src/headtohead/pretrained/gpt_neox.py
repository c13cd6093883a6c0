"""GPT-NeoX and Pythia (Black et al. 2022, https://arxiv.org/abs/2204.06745)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    ModelFamily,
    choice,
    feedforward_width,
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.rotary_config import rope_parameters, rotary_differences, rotary_overrides
from headtohead.pretrained.weight_mapping import FusedByHead, Renamed, WeightMapping, renamed


class GptNeoXFamily(ModelFamily):
    """Both sublayers read the same stream, each through a norm of its own; a part of each head is rotated."""

    model_type = "gpt_neox"
    architectures: ClassVar[Architectures] = {
        "GPTNeoXForCausalLM": "language_model",
        "GPTNeoXModel": None,
        "GPTNeoXForSequenceClassification": None,
        "GPTNeoXForTokenClassification": None,
        "GPTNeoXForQuestionAnswering": None,
    }
    length_field = "max_position_embeddings"
    prefix = "gpt_neox."
    heads = ("embed_out.", "lm_head.", "score.", "classifier.", "qa_outputs.")
    buffers = (r".*\.attention\.(bias|masked_bias)", r".*rotary_emb\.inv_freq")
    aliases: ClassVar[Mapping[str, str]] = {"lm_head.weight": "embed_out.weight"}
    defaults: ClassVar[Hub] = {
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "rotary_pct": 0.25,
        "rotary_emb_base": 10000,
        "use_parallel_residual": True,
        "attention_bias": True,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {"is_causal": (True,)}
    parts: ClassVar[Mapping[str, str]] = {
        "mixer": "SoftmaxAttention",
        "norm": "LayerNorm",
        "feedforward": "DenseFeedForward",
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width, heads = hub["hidden_size"], hub["num_attention_heads"]
        of_head = width // heads
        rope = hub.get("rope_scaling") or hub.get("rope_parameters") or {}
        turned = int(of_head * rope.get("partial_rotary_factor", hub["rotary_pct"]))
        parallel = ["model/residual=parallel", "model.residual.shared_norm=false"]
        return [
            "model=decoder_only",
            "model/mixer=softmax_attention",
            "model/norm=layer_norm",
            "model/feedforward=gelu",
            *(parallel if hub["use_parallel_residual"] else ["model/residual=pre"]),
            *rotary_overrides(hub, base=hub["rotary_emb_base"], width=of_head, rotated=turned),
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={heads}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['layer_norm_eps']}",
            f"model.mixer.bias={flag(hub['attention_bias'])}",
            f"model.feedforward.activation={our_activation(hub['hidden_act'])}",
            multiple(hub["intermediate_size"], width),
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        return rotary_differences(hub, hub["rotary_emb_base"])

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", "gpt_neox.embed_in.weight")
        kinds = ("weight", "bias") if hub["attention_bias"] else ("weight",)
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"gpt_neox.layers.{layer}"
            yield from renamed(f"{ours}.wiring.norms.0", f"{theirs}.input_layernorm")
            yield from renamed(f"{ours}.wiring.norms.1", f"{theirs}.post_attention_layernorm")
            for kind in kinds:
                fused = tuple(f"{ours}.mixer.{name}.{kind}" for name in ("query", "key", "value"))
                yield FusedByHead(fused, f"{theirs}.attention.query_key_value.{kind}", hub["num_attention_heads"])
            yield from renamed(f"{ours}.mixer.output", f"{theirs}.attention.dense", kinds)
            yield from renamed(f"{ours}.feedforward.up", f"{theirs}.mlp.dense_h_to_4h")
            yield from renamed(f"{ours}.feedforward.down", f"{theirs}.mlp.dense_4h_to_h")
        yield from renamed("stack.final_norm", "gpt_neox.final_layer_norm")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "embed_out.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        return {"embed_out.weight": "gpt_neox.embed_in.weight"} if hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        self.check_parts(model)
        position = rope_parameters(model)
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "intermediate_size": feedforward_width(model),
            "hidden_act": their_activation(model["feedforward"]["activation"]),
            "layer_norm_eps": model["norm"]["eps"],
            "rope_parameters": {**position, "partial_rotary_factor": model["position"]["fraction"]},
            "max_position_embeddings": model["max_length"],
            "vocab_size": model["vocab_size"],
            "use_parallel_residual": choice(model["residual"]) == "Parallel",
            "attention_bias": model["mixer"]["bias"],
            "tie_word_embeddings": model["tie_weights"],
            "attention_dropout": 0.0,
            "hidden_dropout": model["dropout"],
        }
