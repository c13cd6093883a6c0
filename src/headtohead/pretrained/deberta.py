"""DeBERTa-v2 and v3 (He et al. 2021, https://arxiv.org/abs/2006.03654, https://arxiv.org/abs/2111.09543): BERT whose
scores know the distance of two tokens by terms of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, get_args

from headtohead.architectures.head_names import HeadName
from headtohead.architectures.pooling import PoolerName
from headtohead.pretrained.bert_like import RESTORED, BertLike
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    flag,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping, renamed

_LAYER = (
    ("mixer.query", "attention.self.query_proj"),
    ("mixer.key", "attention.self.key_proj"),
    ("mixer.value", "attention.self.value_proj"),
    ("mixer.output", "attention.output.dense"),
    ("wiring.norms.0", "attention.output.LayerNorm"),
    ("feedforward.up", "intermediate.dense"),
    ("feedforward.down", "output.dense"),
    ("wiring.norms.1", "output.LayerNorm"),
)
_OWN_MAPS = {
    "c2p": ("mixer.distance_key", "attention.self.pos_key_proj"),
    "p2c": ("mixer.distance_query", "attention.self.pos_query_proj"),
}
"""The maps of distances, where they do not share those of the tokens, by the term that reads them."""
_NEWER = (("dense", "lm_predictions.lm_head.dense"), ("norm", "lm_predictions.lm_head.LayerNorm"))
"""Our parts of the masked head and those of files that are not called legacy."""


class DebertaFamily(BertLike):
    """All layers read one table of vectors of distances. Version 2's larger models have a convolution beside the first
    layer, and are refused."""

    model_type = "deberta-v2"
    architectures: ClassVar[Architectures] = {
        "DebertaV2ForMaskedLM": "masked_language_model",
        "DebertaV2ForSequenceClassification": "classifier",
        "DebertaV2ForTokenClassification": "tagger",
        "DebertaV2ForQuestionAnswering": "span",
        "DebertaV2ForMultipleChoice": None,
        "DebertaV2Model": None,
    }
    prefix = "deberta."
    heads = ("cls.", "lm_predictions.", "mask_predictions.", "pooler.", "classifier.", "qa_outputs.")
    defaults: ClassVar[Hub] = {
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "layer_norm_eps": 1e-7,
        "type_vocab_size": 0,
        "max_position_embeddings": 512,
        "relative_attention": False,
        "max_relative_positions": -1,
        "position_buckets": -1,
        "norm_rel_ebd": "none",
        "share_att_key": False,
        "pos_att_type": None,
        "position_biased_input": True,
        "pooler_hidden_act": "gelu",
        "legacy": True,
    }
    accepts: ClassVar[Accepted] = {
        **BertLike.accepts,
        "relative_attention": (True,),
        "norm_rel_ebd": ("none", "layer_norm"),
        "share_att_key": (True, False),
        "position_biased_input": (True, False),
        "legacy": (True, False),
        "conv_kernel_size": (0,),
    }
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "classifier": (("pooler.dense", "pooler.dense"), ("linear", "classifier")),
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
    }

    def complete(self, config: Hub) -> Hub:
        """Return the fields, distances and terms as the reference understands them; refuse other widths inside."""
        hub = {**super().complete(config)}
        width, heads = hub["hidden_size"], hub["num_attention_heads"]
        alike = {"embedding_size": width, "pooler_hidden_size": width, "attention_head_size": width // heads}
        for field, value in alike.items():
            if field in hub and hub[field] != value:
                raise InexpressibleError(
                    f"its config.json has {field}={hub[field]}, and ours is {value} for hidden_size={width}: choose "
                    "another checkpoint"
                )
        for field in ("position_buckets", "max_relative_positions"):
            if type(hub[field]) is not int:
                raise InexpressibleError(
                    f"its config.json has {field}={hub[field]}, which must be a whole number: correct it"
                )
        furthest = hub["max_relative_positions"]
        hub["max_relative_positions"] = hub["max_position_embeddings"] if furthest < 1 else furthest
        buckets = hub["position_buckets"]
        if buckets > 0 and not 2 <= buckets // 2 + 1 < hub["max_relative_positions"]:
            raise InexpressibleError(
                f"its config.json has position_buckets={buckets}, which cannot sort distances up to "
                f"{hub['max_relative_positions']}: correct it"
            )
        return {**hub, "pos_att_type": _terms(hub["pos_att_type"])}

    def mixing(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        buckets, terms = hub["position_buckets"], hub["pos_att_type"]
        normed = hub["norm_rel_ebd"] == "layer_norm"
        return [
            "model/mixer=disentangled_attention",
            f"model.mixer.content_to_position={flag('c2p' in terms)}",
            f"model.mixer.position_to_content={flag('p2c' in terms)}",
            f"model.mixer.own_maps={flag(not hub['share_att_key'])}",
            f"model.mixer.num_buckets={buckets if buckets > 0 else 'null'}",
            f"model.mixer.max_distance={hub['max_relative_positions']}",
            f"model.mixer.norm_eps={hub['layer_norm_eps'] if normed else 'null'}",
        ]

    def position_overrides(self, hub: Hub) -> list[str]:
        return [f"model/position={'learned' if hub['position_biased_input'] else 'none'}"]

    def position_table(self, hub: Hub) -> Iterator[WeightMapping]:
        if hub["position_biased_input"]:
            yield from super().position_table(hub)

    def heading(self, hub: Hub) -> list[str]:
        """Return the overrides for the heads; refuse an activation of the pooler that ours has not."""
        pooler = our_activation(hub["pooler_hidden_act"])
        if pooler not in get_args(PoolerName):
            raise InexpressibleError(
                f"its config.json has pooler_hidden_act={hub['pooler_hidden_act']}, which our poolers have not: choose "
                "another checkpoint"
            )
        return [f"model.head_activation={our_activation(hub['hidden_act'])}", f"model.pooler={pooler}"]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        there = f"{self.prefix}embeddings"
        yield Renamed("embedding.weight", f"{there}.word_embeddings.weight")
        yield from self.position_table(hub)
        if hub["type_vocab_size"]:
            yield Renamed("segment_embedding.weight", f"{there}.token_type_embeddings.weight")
        yield from renamed("stack.embedding_norm", f"{there}.LayerNorm")
        yield Renamed("stack.shared.0.table", f"{self.prefix}encoder.rel_embeddings.weight")
        if hub["norm_rel_ebd"] == "layer_norm":
            yield from renamed("stack.shared.0.norm", f"{self.prefix}encoder.LayerNorm")
        own = () if hub["share_att_key"] else tuple(_OWN_MAPS[term] for term in hub["pos_att_type"])
        for layer in range(hub["num_hidden_layers"]):
            for our_name, their_name in (*_LAYER, *own):
                yield from renamed(
                    f"stack.blocks.{layer}.{our_name}", f"{self.prefix}encoder.layer.{layer}.{their_name}"
                )

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head != "masked_language_model":
            yield from super().head_pieces(hub, head)
            return
        for our_name, their_name in RESTORED if hub["legacy"] else _NEWER:
            yield from renamed(f"head.{our_name}", their_name)
        yield Renamed("head.bias", "cls.predictions.bias" if hub["legacy"] else "lm_predictions.lm_head.bias")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        if not hub.get("legacy", True):
            return {}
        return {
            "cls.predictions.decoder.bias": "cls.predictions.bias",
            "cls.predictions.decoder.weight": f"{self.prefix}embeddings.word_embeddings.weight",
        }

    def words(self, model: Model) -> Describable:
        poolers = tuple(name for name in get_args(PoolerName) if name != "none")
        return {**super().words(model), "position": ("Learned", "NoPosition"), "pooler": poolers}

    def mixer_words(self, model: Model) -> Describable:
        return {
            "mixer": ("DisentangledAttention",),
            "mixer.head_width": (None, model["d_model"] / model["num_heads"]),
            "mixer.bias": (True,),
            "mixer.shared": (True,),
            "mixer.norm_eps": (None, described(model, "norm.eps")),
        }

    def hub_config(self, model: Model) -> HubConfig:
        config, mixer = super().hub_config(model), model["mixer"]
        terms = {"c2p": mixer["content_to_position"], "p2c": mixer["position_to_content"]}
        return {
            **config,
            "type_vocab_size": model["num_segments"] or 0,
            "relative_attention": True,
            "position_buckets": mixer["num_buckets"] or -1,
            "max_relative_positions": mixer["max_distance"],
            "pos_att_type": [term for term, is_met in terms.items() if is_met],
            "share_att_key": not mixer["own_maps"],
            "norm_rel_ebd": "none" if mixer["norm_eps"] is None else "layer_norm",
            "position_biased_input": described(model, "position") == "Learned",
            "pooler_hidden_act": their_activation(model["pooler"]),
            "pooler_hidden_size": model["d_model"],
            "legacy": True,
        }


def _terms(written: object) -> tuple[str, ...]:
    """Return the terms of distances in our order; refuse none, and unknown ones."""
    listed = [part.strip() for part in written.lower().split("|")] if isinstance(written, str) else written
    if not isinstance(listed, list | tuple) or not listed or not set(listed) <= _OWN_MAPS.keys():
        raise InexpressibleError(
            f"its config.json has pos_att_type={written}, and ours are c2p, p2c or both: choose another checkpoint"
        )
    return tuple(term for term in _OWN_MAPS if term in listed)
