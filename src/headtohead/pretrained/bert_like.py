"""BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805) and its descendants share this base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.architectures.pooling import PoolerName
from headtohead.pretrained.model_description import (
    Describable,
    Model,
    attention_fields,
    block_fields,
    check_describable,
    described,
    labels,
)
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    ModelFamily,
    feedforward_width,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import OffsetRows, Renamed, WeightMapping, renamed

LAYER = (
    ("mixer.query", "attention.self.query"),
    ("mixer.key", "attention.self.key"),
    ("mixer.value", "attention.self.value"),
    ("mixer.output", "attention.output.dense"),
    ("wiring.norms.0", "attention.output.LayerNorm"),
    ("feedforward.up", "intermediate.dense"),
    ("feedforward.down", "output.dense"),
    ("wiring.norms.1", "output.LayerNorm"),
)
"""Our parts of a block and theirs; each has a weight and a bias."""


class BertLike(ModelFamily):
    """An encoder with norms after each sum and after the embeddings, learned positions, and sentences of two kinds."""

    buffers = (r".*embeddings\.(position_ids|token_type_ids)",)
    defaults: ClassVar[Hub] = {
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
    }
    accepts: ClassVar[Accepted] = {
        "tie_word_embeddings": (True,),
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
    }

    pooler: ClassVar[PoolerName] = "tanh"
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {}
    """Our parts of each head and theirs; each has a weight and a bias."""
    vocabulary_bias: ClassVar[str]
    """The bias of their logits of tokens."""
    layer: ClassVar[tuple[tuple[str, str], ...]] = LAYER
    more_of_a_layer: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The layers that a descendant adds to a block, each with a weight and a bias."""

    def first_position(self, hub: Hub) -> int:
        """Return the row of the position table that the first token uses."""
        del hub
        return 0

    def mixing(self, hub: Hub, head: HeadName) -> list[str]:
        """Return the overrides for the mixer."""
        del hub, head
        return ["model/mixer=softmax_attention"]

    def position_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides for the positions."""
        del hub
        return ["model/position=learned"]

    def position_table(self, hub: Hub) -> Iterator[WeightMapping]:
        """Yield the table of positions, where there is one."""
        theirs = f"{self.prefix}embeddings.position_embeddings.weight"
        yield OffsetRows("stack.positions.0.table.weight", theirs, self.first_position(hub))

    def heading(self, hub: Hub) -> list[str]:
        """Return the overrides for the heads besides their linear maps."""
        return [f"model.head_activation={our_activation(hub['hidden_act'])}", f"model.pooler={self.pooler}"]

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        width = hub["hidden_size"]
        return [
            "model=encoder_only",
            *self.mixing(hub, head),
            *self.position_overrides(hub),
            "model/norm=layer_norm",
            "model/residual=post",
            "model/feedforward=gelu",
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={hub['num_attention_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.max_length={hub['max_position_embeddings'] - self.first_position(hub)}",
            f"model.num_segments={hub['type_vocab_size']}",
            f"model.norm.eps={hub['layer_norm_eps']}",
            multiple(hub["intermediate_size"], width),
            f"model.feedforward.activation={our_activation(hub['hidden_act'])}",
            f"model.dropout={hub['hidden_dropout_prob']}",
            "model.tie_weights=true",
            "model.embedding_norm=true",
            "model.pooling=cls",
            *self.heading(hub),
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        there = f"{self.prefix}embeddings"
        yield Renamed("embedding.weight", f"{there}.word_embeddings.weight")
        yield from self.position_table(hub)
        if hub["type_vocab_size"]:
            yield Renamed("segment_embedding.weight", f"{there}.token_type_embeddings.weight")
        yield from renamed("stack.embedding_norm", f"{there}.LayerNorm")
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"{self.prefix}encoder.layer.{layer}"
            for our_name, their_name in (*self.layer, *self.more_of_a_layer):
                yield from renamed(f"{ours}.{our_name}", f"{theirs}.{their_name}")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        del hub
        for our_name, their_name in self.head_parts.get(head, ()):
            yield from renamed(f"head.{our_name}", their_name)
        if head.startswith("masked_language_model"):
            yield Renamed("head.bias", self.vocabulary_bias)

    def hub_config(self, model: Model) -> HubConfig:
        check_describable(model, self.model_type, {**self.words(model), **self.mixer_words(model)})
        activation = their_activation(described(model, "feedforward.activation"))
        return {
            "model_type": self.model_type,
            "vocab_size": model["vocab_size"],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "intermediate_size": feedforward_width(model),
            "hidden_act": activation,
            "hidden_dropout_prob": model["dropout"],
            "attention_probs_dropout_prob": model["dropout"],
            "max_position_embeddings": model["max_length"] + self.first_position(self.defaults),
            "type_vocab_size": model["num_segments"],
            "layer_norm_eps": described(model, "norm.eps"),
            **labels(model),
        }

    def words(self, model: Model) -> Describable:
        """Return what this format can express, the mixer left out."""
        activation = described(model, "feedforward.activation")
        return {
            "": ("EncoderOnly",),
            **block_fields("PostNorm"),
            "position": ("Learned",),
            "embedding_norm": (True,),
            "scale_embedding": (False,),
            "head_bias": (True,),
            "tie_weights": (True,),
            "pooling": ("cls",),
            "pooler": (self.pooler,),
            "head_activation": (activation,),
        }

    def mixer_words(self, model: Model) -> Describable:
        """Return what this format can express about the mixer."""
        return attention_fields(model)


# BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805).


RESTORED = (("dense", "cls.predictions.transform.dense"), ("norm", "cls.predictions.transform.LayerNorm"))


class BertFamily(BertLike):
    """Its pooler belongs to its body there, and to the head that reads it here."""

    model_type = "bert"
    architectures: ClassVar[Architectures] = {
        "BertForMaskedLM": "masked_language_model",
        "BertForPreTraining": "masked_language_model_and_pair",
        "BertForSequenceClassification": "classifier",
        "BertForTokenClassification": "tagger",
        "BertForQuestionAnswering": "span",
        "BertForNextSentencePrediction": None,
        "BertForMultipleChoice": None,
        "BertModel": None,
    }
    prefix = "bert."
    heads = ("cls.", "classifier.", "qa_outputs.", "bert.pooler.")
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": RESTORED,
        "masked_language_model_and_pair": (
            *RESTORED,
            ("pooler", "bert.pooler.dense"),
            ("pair", "cls.seq_relationship"),
        ),
        "classifier": (("pooler.dense", "bert.pooler.dense"), ("linear", "classifier")),
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
    }
    vocabulary_bias = "cls.predictions.bias"

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "cls.predictions.decoder.bias": "cls.predictions.bias",
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        }


# RoBERTa (Liu et al. 2019, https://arxiv.org/abs/1907.11692).


class RobertaLike(BertLike):
    """Places are counted from the one after padding's; the masked head is one module, and so is the classifier."""

    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": (("dense", "lm_head.dense"), ("norm", "lm_head.layer_norm")),
        "classifier": (("pooler.dense", "classifier.dense"), ("linear", "classifier.out_proj")),
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
    }
    vocabulary_bias = "lm_head.bias"

    def first_position(self, hub: Hub) -> int:
        """Skip the row of padding, which no token that counts ever uses."""
        return int(hub["pad_token_id"]) + 1

    def heading(self, hub: Hub) -> list[str]:
        """Return the overrides for the heads: the masked head has an exact GELU whatever the layers have."""
        del hub
        return ["model.head_activation=gelu", f"model.pooler={self.pooler}"]

    def hub_config(self, model: Model) -> HubConfig:
        return {**super().hub_config(model), "pad_token_id": self.defaults["pad_token_id"]}

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "head_activation": ("gelu",)}

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "lm_head.decoder.bias": "lm_head.bias",
            "lm_head.decoder.weight": f"{self.prefix}embeddings.word_embeddings.weight",
        }


class RobertaFamily(RobertaLike):
    """RoBERTa has one kind of sentence, and no pooler in what was published."""

    model_type = "roberta"
    architectures: ClassVar[Architectures] = {
        "RobertaForMaskedLM": "masked_language_model",
        "RobertaForSequenceClassification": "classifier",
        "RobertaForTokenClassification": "tagger",
        "RobertaForQuestionAnswering": "span",
        "RobertaForMultipleChoice": None,
        "RobertaModel": None,
    }
    prefix = "roberta."
    heads = ("lm_head.", "classifier.", "qa_outputs.", "roberta.pooler.")
    defaults: ClassVar[Hub] = {**BertLike.defaults, "pad_token_id": 1}
