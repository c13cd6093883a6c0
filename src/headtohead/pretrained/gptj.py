"""GPT-J (Wang and Komatsuzaki 2021, https://github.com/kingoflolz/mesh-transformer-jax)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    ModelFamily,
    feedforward_width,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.rotary_config import rotary_overrides
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping, renamed


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
