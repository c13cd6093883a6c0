"""ALBERT (Lan et al. 2019, https://arxiv.org/abs/1909.11942): BERT with one layer that every token passes many times,
and embeddings narrower than the layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.bert_like import BertLike
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping, renamed

_LAYER = (
    ("mixer.query", "attention.query"),
    ("mixer.key", "attention.key"),
    ("mixer.value", "attention.value"),
    ("mixer.output", "attention.dense"),
    ("wiring.norms.0", "attention.LayerNorm"),
    ("feedforward.up", "ffn"),
    ("feedforward.down", "ffn_output"),
    ("wiring.norms.1", "full_layer_layer_norm"),
)


class AlbertFamily(BertLike):
    """A group of layers is passed num_hidden_layers times; several groups, which no published model has, are
    refused."""

    model_type = "albert"
    architectures: ClassVar[Architectures] = {
        "AlbertForMaskedLM": "masked_language_model",
        "AlbertForSequenceClassification": "classifier",
        "AlbertForTokenClassification": "tagger",
        "AlbertForQuestionAnswering": "span",
        "AlbertForPreTraining": None,
        "AlbertForMultipleChoice": None,
        "AlbertModel": None,
    }
    prefix = "albert."
    heads = ("predictions.", "sop_classifier.", "classifier.", "qa_outputs.", "albert.pooler.")
    defaults: ClassVar[Hub] = {
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_hidden_layers": 12,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
    accepts: ClassVar[Accepted] = {**BertLike.accepts, "num_hidden_groups": (1,)}
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": (("dense", "predictions.dense"), ("norm", "predictions.LayerNorm")),
        "classifier": (("pooler.dense", "albert.pooler"), ("linear", "classifier")),
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
    }
    vocabulary_bias = "predictions.bias"

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        layers = {**hub, "num_hidden_layers": hub["inner_group_num"]}
        return [
            *super().overrides(layers, head),
            f"model.loops={hub['num_hidden_layers']}",
            f"model.embedding_width={hub['embedding_size']}",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        there = f"{self.prefix}embeddings"
        yield Renamed("embedding.weight", f"{there}.word_embeddings.weight")
        yield from self.position_table(hub)
        if hub["type_vocab_size"]:
            yield Renamed("segment_embedding.weight", f"{there}.token_type_embeddings.weight")
        yield from renamed("stack.embedding_norm", f"{there}.LayerNorm")
        yield from renamed("stack.widening", f"{self.prefix}encoder.embedding_hidden_mapping_in")
        for layer in range(hub["inner_group_num"]):
            theirs = f"{self.prefix}encoder.albert_layer_groups.0.albert_layers.{layer}"
            for our_name, their_name in _LAYER:
                yield from renamed(f"stack.blocks.{layer}.{our_name}", f"{theirs}.{their_name}")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "predictions.decoder.bias": "predictions.bias",
            "predictions.decoder.weight": f"{self.prefix}embeddings.word_embeddings.weight",
        }

    def words(self, model: Model) -> Describable:
        if model.get("embedding_width") is None:
            raise InexpressibleError(
                "model.embedding_width=null cannot be written in the form of albert, which has a map from embeddings "
                "to layers: keep our own form, or train a model with model.embedding_width"
            )
        either = {"loops": (model.get("loops"),), "embedding_width": (model["embedding_width"],)}
        return {**super().words(model), **either}

    def hub_config(self, model: Model) -> HubConfig:
        return {
            **super().hub_config(model),
            "embedding_size": model["embedding_width"],
            "num_hidden_layers": model["loops"],
            "num_hidden_groups": 1,
            "inner_group_num": model["num_layers"],
            "classifier_dropout_prob": model["dropout"],
        }
