"""GPT-NeoX and Pythia (Black et al. 2022, https://arxiv.org/abs/2204.06745), and GPT-J (Wang and Komatsuzaki 2021,
https://github.com/kingoflolz/mesh-transformer-jax)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import rope_parameters, rotary_differences, rotary_fields, rotary_overrides
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
    table = "gpt_neox.embed_in.weight"
    head_matrix = "embed_out.weight"
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
        yield Renamed("embedding.weight", self.table)
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
            **rotary_fields({**position, "partial_rotary_factor": model["position"]["fraction"]}),
            "rotary_pct": model["position"]["fraction"],
            "rotary_emb_base": position["rope_theta"],
            "max_position_embeddings": model["max_length"],
            "vocab_size": model["vocab_size"],
            "use_parallel_residual": choice(model["residual"]) == "Parallel",
            "attention_bias": model["mixer"]["bias"],
            "tie_word_embeddings": model["tie_weights"],
            "attention_dropout": 0.0,
            "hidden_dropout": model["dropout"],
        }


class GptJFamily(ModelFamily):
    """Both sublayers read the stream through one norm; neighbouring channels rotate as pairs; the head has a bias."""

    model_type = "gptj"
    architectures: ClassVar[Architectures] = {
        "GPTJForCausalLM": "language_model",
        "GPTJModel": None,
        "GPTJForSequenceClassification": None,
        "GPTJForQuestionAnswering": None,
    }
    length_field = "n_positions"
    prefix = "transformer."
    heads = ("lm_head.", "score.", "qa_outputs.")
    buffers = (r".*\.attn\.(bias|masked_bias|embed_positions)",)
    defaults: ClassVar[Hub] = {
        "activation_function": "gelu_new",
        "n_inner": None,
        "rotary_dim": 64,
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {"tie_word_embeddings": (False,), "is_causal": (True,)}
    synonyms: ClassVar[Mapping[str, str]] = {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }
    parts: ClassVar[Mapping[str, str]] = {
        "mixer": "SoftmaxAttention",
        "position": "Rotary",
        "norm": "LayerNorm",
        "residual": "Parallel",
        "feedforward": "DenseFeedForward",
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        width, of_head = hub["n_embd"], hub["n_embd"] // hub["n_head"]
        position = rotary_overrides(
            {}, base=10000.0, width=of_head, rotated=hub["rotary_dim"] or of_head, pairing="interleaved"
        )
        return [
            "model=decoder_only",
            "model/mixer=softmax_attention",
            "model/norm=layer_norm",
            "model/residual=parallel",
            "model/feedforward=gelu_tanh",
            *position,
            f"model.d_model={width}",
            f"model.num_layers={hub['n_layer']}",
            f"model.num_heads={hub['n_head']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['layer_norm_epsilon']}",
            "model.mixer.bias=false",
            f"model.feedforward.activation={our_activation(hub['activation_function'])}",
            multiple(hub["n_inner"] or 4 * width, width),
            f"model.dropout={hub['resid_pdrop']}",
            "model.tie_weights=false",
            *(["model.head_bias=true"] if head == "language_model" else []),
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", "transformer.wte.weight")
        for layer in range(hub["n_layer"]):
            ours, theirs = f"stack.blocks.{layer}", f"transformer.h.{layer}"
            yield from renamed(f"{ours}.wiring.norms.0", f"{theirs}.ln_1")
            for our_name, their_name in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
                yield Renamed(f"{ours}.mixer.{our_name}.weight", f"{theirs}.attn.{their_name}_proj.weight")
            yield from renamed(f"{ours}.feedforward.up", f"{theirs}.mlp.fc_in")
            yield from renamed(f"{ours}.feedforward.down", f"{theirs}.mlp.fc_out")
        yield from renamed("stack.final_norm", "transformer.ln_f")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        del hub
        if head == "language_model":
            yield from renamed("head", "lm_head")

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        self.check_parts(model)
        of_head = model["d_model"] // model["num_heads"]
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "n_embd": model["d_model"],
            "n_layer": model["num_layers"],
            "n_head": model["num_heads"],
            "n_inner": feedforward_width(model),
            "n_positions": model["max_length"],
            "rotary_dim": int(of_head * model["position"]["fraction"]),
            "vocab_size": model["vocab_size"],
            "activation_function": their_activation(model["feedforward"]["activation"]),
            "layer_norm_epsilon": model["norm"]["eps"],
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), model["dropout"]),
            "tie_word_embeddings": False,
        }
