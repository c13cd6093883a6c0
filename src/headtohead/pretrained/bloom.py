"""BLOOM (Le Scao et al. 2022, https://arxiv.org/abs/2211.05100)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, InexpressibleError, ModelFamily, flag
from headtohead.pretrained.weight_mapping import FusedByHead, Renamed, WeightMapping, renamed


class BloomFamily(ModelFamily):
    """Scores that fall with distance, a norm after the embedding, the tanh form of GELU.

    Its own code rounds the constant of that form, sqrt(2 / pi), to eight digits; ours is exact.
    """

    model_type = "bloom"
    architectures: ClassVar[Architectures] = {
        "BloomForCausalLM": "language_model",
        "BloomModel": None,
        "BloomForSequenceClassification": None,
        "BloomForTokenClassification": None,
        "BloomForQuestionAnswering": None,
    }
    prefix = "transformer."
    heads = ("lm_head.", "score.", "classifier.", "qa_outputs.")
    table = "transformer.word_embeddings.weight"
    defaults: ClassVar[Hub] = {
        "layer_norm_epsilon": 1e-5,
        "hidden_dropout": 0.0,
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {
        "apply_residual_connection_post_layernorm": (False,),
        "is_causal": (True,),
    }
    synonyms: ClassVar[Mapping[str, str]] = {
        "n_embed": "hidden_size",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }
    parts: ClassVar[Mapping[str, str]] = {
        "mixer": "SoftmaxAttention",
        "position": "Alibi",
        "norm": "LayerNorm",
        "residual": "PreNorm",
        "feedforward": "DenseFeedForward",
    }

    def complete(self, config: Mapping[str, object]) -> Hub:
        """Complete the configuration; refuse tensor-parallel slices, for which the reference drops biases."""
        hub = super().complete(config)
        if hub.get("slow_but_exact") and hub.get("pretraining_tp", 1) != 1:
            raise InexpressibleError(
                f"its config.json has slow_but_exact=true and pretraining_tp={hub['pretraining_tp']}, and ours "
                "computes in one piece: set slow_but_exact=false"
            )
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        return [
            "model=decoder_only",
            "model/mixer=softmax_attention",
            "model/position=alibi",
            "model/norm=layer_norm",
            "model/residual=pre",
            "model/feedforward=gelu_tanh",
            f"model.d_model={hub['hidden_size']}",
            f"model.num_layers={hub['n_layer']}",
            f"model.num_heads={hub['n_head']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['layer_norm_epsilon']}",
            "model.embedding_norm=true",
            f"model.dropout={hub['hidden_dropout']}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", self.table)
        yield from renamed("stack.embedding_norm", "transformer.word_embeddings_layernorm")
        for layer in range(hub["n_layer"]):
            ours, theirs = f"stack.blocks.{layer}", f"transformer.h.{layer}"
            yield from renamed(f"{ours}.wiring.norms.0", f"{theirs}.input_layernorm")
            yield from renamed(f"{ours}.wiring.norms.1", f"{theirs}.post_attention_layernorm")
            for kind in ("weight", "bias"):
                fused = tuple(f"{ours}.mixer.{name}.{kind}" for name in ("query", "key", "value"))
                yield FusedByHead(fused, f"{theirs}.self_attention.query_key_value.{kind}", hub["n_head"])
            yield from renamed(f"{ours}.mixer.output", f"{theirs}.self_attention.dense")
            yield from renamed(f"{ours}.feedforward.up", f"{theirs}.mlp.dense_h_to_4h")
            yield from renamed(f"{ours}.feedforward.down", f"{theirs}.mlp.dense_4h_to_h")
        yield from renamed("stack.final_norm", "transformer.ln_f")

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        self.check_parts(model)
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "hidden_size": model["d_model"],
            "n_layer": model["num_layers"],
            "n_head": model["num_heads"],
            "vocab_size": model["vocab_size"],
            "layer_norm_epsilon": model["norm"]["eps"],
            **dict.fromkeys(("hidden_dropout", "attention_dropout"), model["dropout"]),
            "tie_word_embeddings": model["tie_weights"],
        }
