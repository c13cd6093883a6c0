"""ModernBERT (Warner et al. 2024, https://arxiv.org/abs/2412.13663)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import base_of_layers
from headtohead.pretrained.layer_kinds import (
    EVERYTHING,
    WINDOW,
    WINDOWS,
    kinds_of_layers,
    listed_kinds,
    mixer_paths,
    pattern_override,
)
from headtohead.pretrained.model_description import (
    Describable,
    Model,
    attention_fields,
    check_describable,
    described,
)
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    InexpressibleError,
    ModelFamily,
    feedforward_width,
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import FusedInBlocks, Renamed, WeightMapping, renamed, weight_kinds


class ModernBertFamily(ModelFamily):
    """An encoder with norms before each sublayer but the first, gates, rotary positions of two bases, and layers that
    see everything or a window. Its classifiers have a norm that ours lack: they start fresh."""

    model_type = "modernbert"
    architectures: ClassVar[Architectures] = {
        "ModernBertForMaskedLM": "masked_language_model",
        "ModernBertModel": None,
        "ModernBertForSequenceClassification": None,
        "ModernBertForTokenClassification": None,
        "ModernBertForQuestionAnswering": None,
        "ModernBertForMultipleChoice": None,
    }
    length_field = "max_position_embeddings"
    prefix = "model."
    heads = ("head.", "decoder.", "classifier.")
    buffers = (r".*rotary_emb\..*inv_freq",)
    defaults: ClassVar[Hub] = {
        "hidden_activation": "gelu",
        "norm_eps": 1e-5,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "classifier_activation": "gelu",
        "layer_types": None,
        "global_attn_every_n_layers": 3,
        "local_attention": 128,
        "rope_parameters": None,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {
        "attention_dropout": (0.0,),
        "embedding_dropout": (0.0,),
        "mlp_dropout": (0.0,),
        "position_embedding_type": ("absolute",),
        "rope_scaling": (None,),
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width, kinds = hub["hidden_size"], layer_kinds(hub)
        bases = {
            kind: base_of_layers(hub, kind, hub[field])
            for kind, field in ((EVERYTHING, "global_rope_theta"), (WINDOW, "local_rope_theta"))
        }
        attention, norm = flag(hub["attention_bias"]), hub["norm_eps"]
        local_base = bases[WINDOW] if WINDOW in kinds else "null"
        mixer_fields = {
            EVERYTHING: [f"model.mixers.softmax_attention.bias={attention}"],
            WINDOW: [
                f"model.mixers.sliding_window.bias={attention}",
                f"model.mixers.sliding_window.window={_each_side(hub)}",
            ],
        }
        return [
            "model=modernbert",
            pattern_override(kinds, WINDOWS),
            *(field for kind, fields in mixer_fields.items() if kind in kinds for field in fields),
            f"model.position.base={bases[EVERYTHING]}",
            f"model.position.local_base={local_base}",
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={hub['num_attention_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={norm}",
            f"model.norm.bias={flag(hub['norm_bias'])}",
            f"model.feedforward.activation={our_activation(hub['hidden_activation'])}",
            multiple(hub["intermediate_size"], width),
            "model.feedforward.two_thirds=false",
            f"model.feedforward.bias={flag(hub['mlp_bias'])}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
            f"model.head_bias={flag(hub['decoder_bias'])}",
            f"model.head_activation={our_activation(hub['classifier_activation'])}",
            f"model.head_dense_bias={flag(hub['classifier_bias'])}",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        norm = weight_kinds(hub["norm_bias"])
        yield Renamed("embedding.weight", "model.embeddings.tok_embeddings.weight")
        yield from renamed("stack.embedding_norm", "model.embeddings.norm", norm)
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"model.layers.{layer}"
            if layer:
                yield from renamed(f"{ours}.wiring.norms.0", f"{theirs}.attn_norm", norm)
            yield from renamed(f"{ours}.wiring.norms.1", f"{theirs}.mlp_norm", norm)
            for kind in weight_kinds(hub["attention_bias"]):
                fused = tuple(f"{ours}.mixer.{name}.{kind}" for name in ("query", "key", "value"))
                yield FusedInBlocks(fused, f"{theirs}.attn.Wqkv.{kind}")
                yield Renamed(f"{ours}.mixer.output.{kind}", f"{theirs}.attn.Wo.{kind}")
            for kind in weight_kinds(hub["mlp_bias"]):
                gated = tuple(f"{ours}.feedforward.{name}.{kind}" for name in ("gate", "up"))
                yield FusedInBlocks(gated, f"{theirs}.mlp.Wi.{kind}")
                yield Renamed(f"{ours}.feedforward.down.{kind}", f"{theirs}.mlp.Wo.{kind}")
        yield from renamed("stack.final_norm", "model.final_norm", norm)

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head != "masked_language_model":
            return
        yield from renamed("head.dense", "head.dense", weight_kinds(hub["classifier_bias"]))
        yield from renamed("head.norm", "head.norm", weight_kinds(hub["norm_bias"]))
        if hub["decoder_bias"]:
            yield Renamed("head.bias", "decoder.bias")
        if not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "decoder.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        table = "model.embeddings.tok_embeddings.weight"
        return {"decoder.weight": table} if hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Model) -> dict[str, object]:
        paths = mixer_paths(model)
        check_describable(model, self.model_type, _words(model, paths))
        windows = {described(model, f"{path}.window") for path in paths} - {None}
        biases = {described(model, f"{path}.bias") for path in paths}
        if len(windows) > 1 or len(biases) > 1:
            raise InexpressibleError(
                f"the mixers of model.pattern have windows {sorted(windows)} and biases {sorted(biases)}, and "
                f"{self.model_type} has one of each: give all the same"
            )
        base = model["position"]["base"]
        local_base = model["position"]["local_base"]
        return {
            "model_type": self.model_type,
            "vocab_size": model["vocab_size"],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "intermediate_size": feedforward_width(model),
            "hidden_activation": their_activation(model["feedforward"]["activation"]),
            "max_position_embeddings": model["max_length"],
            "layer_types": kinds_of_layers(model, WINDOWS),
            "local_attention": 2 * next(iter(windows), 1),
            "rope_parameters": {
                EVERYTHING: {"rope_type": "default", "rope_theta": base},
                WINDOW: {"rope_type": "default", "rope_theta": base if local_base is None else local_base},
            },
            "global_rope_theta": base,
            "local_rope_theta": base if local_base is None else local_base,
            "norm_eps": model["norm"]["eps"],
            "norm_bias": model["norm"]["bias"],
            "attention_bias": next(iter(biases)),
            "mlp_bias": model["feedforward"]["bias"],
            "decoder_bias": model["head_bias"],
            "classifier_bias": model["head_dense_bias"],
            "classifier_activation": their_activation(model["head_activation"]),
            "tie_word_embeddings": model["tie_weights"],
            "pad_token_id": 0,
            **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
        }


def layer_kinds(hub: Hub) -> list[str]:
    """Return which layers see everything and which a window: as listed, or every third one everything."""
    if hub["layer_types"] is None:
        every = hub["global_attn_every_n_layers"]
        return [WINDOW if layer % every else EVERYTHING for layer in range(hub["num_hidden_layers"])]
    return listed_kinds(hub, WINDOWS)


def _each_side(hub: Hub) -> int:
    """Return how far a window reaches on each side; its field counts both."""
    both = hub["local_attention"]
    if type(both) is not int or both < 2:
        raise InexpressibleError(f"its config.json has local_attention={both}, which must be at least 2: correct it")
    return both // 2


def _words(model: Model, paths: Sequence[str]) -> Describable:
    """Return what this format can express."""
    mixers: dict[str, Sequence[object]] = {}
    for path in dict.fromkeys(paths):
        bias = bool(described(model, f"{path}.bias"))
        mixers |= {**attention_fields(model, path, bias=bias), path: tuple(kind.made_by for kind in WINDOWS.values())}
    return {
        "": ("EncoderOnly",),
        **mixers,
        "local": (None, "Identity"),
        "position": ("Rotary",),
        "position.fraction": (1.0,),
        "position.pairing": ("half",),
        "position.head_width": (None,),
        "norm": ("LayerNorm",),
        "residual": ("PreNorm",),
        "feedforward": ("DenseFeedForward",),
        "feedforward.gated": (True,),
        "dropout": (0.0,),
        "embedding_norm": (True,),
        "first_norm": (False,),
        "scale_embedding": (False,),
        "num_segments": (0, None),
    }
