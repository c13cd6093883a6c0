"""GPT-2 (Radford et al. 2019,
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)."""

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
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import FusedInBlocks, Renamed, Transposed, WeightMapping


class Gpt2Family(ModelFamily):
    """Matrices have inputs as rows; queries, keys and values are one matrix, block by block."""

    model_type = "gpt2"
    architectures: ClassVar[Architectures] = {
        "GPT2LMHeadModel": "language_model",
        "GPT2Model": None,
        "GPT2ForSequenceClassification": None,
        "GPT2ForTokenClassification": None,
        "GPT2ForQuestionAnswering": None,
    }
    prefix = "transformer."
    heads = ("lm_head.", "score.", "classifier.", "qa_outputs.")
    table = "transformer.wte.weight"
    buffers = (r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",)
    defaults: ClassVar[Hub] = {
        "activation_function": "gelu_new",
        "n_inner": None,
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.1,
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
        "is_causal": (True,),
    }
    synonyms: ClassVar[Mapping[str, str]] = {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }

    parts: ClassVar[Mapping[str, str]] = {
        "mixer": "SoftmaxAttention",
        "position": "Learned",
        "norm": "LayerNorm",
        "residual": "PreNorm",
        "feedforward": "DenseFeedForward",
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width = hub["n_embd"]
        return [
            "model=decoder_only",
            "model/mixer=softmax_attention",
            "model/position=learned",
            "model/norm=layer_norm",
            "model/residual=pre",
            "model/feedforward=gelu_tanh",
            f"model.d_model={width}",
            f"model.num_layers={hub['n_layer']}",
            f"model.num_heads={hub['n_head']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.max_length={hub['n_positions']}",
            f"model.norm.eps={hub['layer_norm_epsilon']}",
            multiple(hub["n_inner"] or 4 * width, width),
            f"model.feedforward.activation={our_activation(hub['activation_function'])}",
            f"model.dropout={hub['resid_pdrop']}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", self.table)
        yield Renamed("stack.positions.0.table.weight", "transformer.wpe.weight")
        for layer in range(hub["n_layer"]):
            ours, theirs = f"stack.blocks.{layer}", f"transformer.h.{layer}"
            for index, norm in enumerate(("ln_1", "ln_2")):
                for kind in ("weight", "bias"):
                    yield Renamed(f"{ours}.wiring.norms.{index}.{kind}", f"{theirs}.{norm}.{kind}")
            for kind in ("weight", "bias"):
                fused = tuple(f"{ours}.mixer.{name}.{kind}" for name in ("query", "key", "value"))
                yield FusedInBlocks(fused, f"{theirs}.attn.c_attn.{kind}", transposed=True)
            for our_name, their_name in (
                ("mixer.output", "attn.c_proj"),
                ("feedforward.up", "mlp.c_fc"),
                ("feedforward.down", "mlp.c_proj"),
            ):
                yield Transposed(f"{ours}.{our_name}.weight", f"{theirs}.{their_name}.weight")
                yield Renamed(f"{ours}.{our_name}.bias", f"{theirs}.{their_name}.bias")
        for kind in ("weight", "bias"):
            yield Renamed(f"stack.final_norm.{kind}", f"transformer.ln_f.{kind}")

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        self.check_parts(model)
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "n_embd": model["d_model"],
            "n_layer": model["num_layers"],
            "n_head": model["num_heads"],
            "n_inner": feedforward_width(model),
            "n_positions": model["max_length"],
            "vocab_size": model["vocab_size"],
            "activation_function": their_activation(model["feedforward"]["activation"]),
            "layer_norm_epsilon": model["norm"]["eps"],
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), model["dropout"]),
            "tie_word_embeddings": model["tie_weights"],
        }
