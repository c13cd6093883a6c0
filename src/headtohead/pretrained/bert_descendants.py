"""DistilBERT (Sanh et al. 2019, https://arxiv.org/abs/1910.01108): BERT of half the layers, without sentence types;
ELECTRA (Clark et al. 2020, https://arxiv.org/abs/2003.10555): BERT that was trained to find replaced tokens; and
RoFormer (Su et al. 2021, https://arxiv.org/abs/2104.09864): BERT with the first rotary positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.bert_like import RESTORED, BertLike
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    our_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping, renamed

_LAYER = (
    ("mixer.query", "attention.q_lin"),
    ("mixer.key", "attention.k_lin"),
    ("mixer.value", "attention.v_lin"),
    ("mixer.output", "attention.out_lin"),
    ("wiring.norms.0", "sa_layer_norm"),
    ("feedforward.up", "ffn.lin1"),
    ("feedforward.down", "ffn.lin2"),
    ("wiring.norms.1", "output_layer_norm"),
)
_FIELDS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
"""Its names of fields, and BERT's."""


class DistilBertFamily(BertLike):
    """Norms have one epsilon, and the layer between pooling and classes a ReLU."""

    model_type = "distilbert"
    architectures: ClassVar[Architectures] = {
        "DistilBertForMaskedLM": "masked_language_model",
        "DistilBertForSequenceClassification": "classifier",
        "DistilBertForTokenClassification": "tagger",
        "DistilBertForQuestionAnswering": "span",
        "DistilBertForMultipleChoice": None,
        "DistilBertModel": None,
    }
    prefix = "distilbert."
    heads = ("vocab_", "pre_classifier.", "classifier.", "qa_outputs.")
    synonyms = _FIELDS
    accepts: ClassVar[Accepted] = {"tie_word_embeddings": (True,)}
    pooler = "relu"
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": (("dense", "vocab_transform"), ("norm", "vocab_layer_norm")),
        "classifier": (("pooler.dense", "pre_classifier"), ("linear", "classifier")),
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
    }
    vocabulary_bias = "vocab_projector.bias"

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration with what all its models share."""
        return {**super().complete(config), "type_vocab_size": 0, "layer_norm_eps": 1e-12}

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        there = f"{self.prefix}embeddings"
        yield Renamed("embedding.weight", f"{there}.word_embeddings.weight")
        yield Renamed("stack.positions.0.table.weight", f"{there}.position_embeddings.weight")
        yield from renamed("stack.embedding_norm", f"{there}.LayerNorm")
        for layer in range(hub["num_hidden_layers"]):
            for our_name, their_name in _LAYER:
                yield from renamed(
                    f"stack.blocks.{layer}.{our_name}", f"{self.prefix}transformer.layer.{layer}.{their_name}"
                )

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {"vocab_projector.weight": f"{self.prefix}embeddings.word_embeddings.weight"}

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "num_segments": (0, None), "norm.eps": (1e-12,)}

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["type_vocab_size"], config["layer_norm_eps"]
        theirs = {ours: name for name, ours in _FIELDS.items()}
        return {theirs.get(name, name): value for name, value in config.items()}


class ElectraFamily(BertLike):
    """The discriminator is an encoder, with its own head or others; a generator restores tokens. Embeddings are as wide
    as layers, as in the published base and large discriminators: narrower ones are refused."""

    model_type = "electra"
    architectures: ClassVar[Architectures] = {
        "ElectraForMaskedLM": "masked_language_model",
        "ElectraForSequenceClassification": "classifier",
        "ElectraForTokenClassification": "tagger",
        "ElectraForQuestionAnswering": "span",
        "ElectraForPreTraining": "replaced_token_detector",
        "ElectraForMultipleChoice": None,
        "ElectraForCausalLM": None,
        "ElectraModel": None,
    }
    prefix = "electra."
    heads = ("generator_predictions.", "generator_lm_head.", "discriminator_predictions.", "classifier.", "qa_outputs.")
    defaults: ClassVar[Hub] = {**BertLike.defaults, "embedding_size": 128}
    pooler = "gelu"
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": (
            ("dense", "generator_predictions.dense"),
            ("norm", "generator_predictions.LayerNorm"),
        ),
        "classifier": (("pooler.dense", "classifier.dense"), ("linear", "classifier.out_proj")),
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
        "replaced_token_detector": (
            ("dense", "discriminator_predictions.dense"),
            ("linear", "discriminator_predictions.dense_prediction"),
        ),
    }
    vocabulary_bias = "generator_lm_head.bias"

    def complete(self, config: Hub) -> Hub:
        return _with_wide_embedding(super().complete(config), "choose a base or large discriminator")

    def heading(self, hub: Hub) -> list[str]:
        """Return the overrides for the heads, which have an exact GELU whatever the layers have."""
        del hub
        return ["model.head_activation=gelu", f"model.pooler={self.pooler}"]

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        """Return the overrides; the head that finds replaced tokens has the activation of the layers."""
        composed = super().overrides(hub, head)
        if head != "replaced_token_detector":
            return composed
        own = f"model.head_activation={our_activation(hub['hidden_act'])}"
        return [own if part.startswith("model.head_activation=") else part for part in composed]

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {"generator_lm_head.weight": f"{self.prefix}embeddings.word_embeddings.weight"}

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "head_activation": ("gelu",)}

    def hub_config(self, model: Model) -> HubConfig:
        return {**super().hub_config(model), "embedding_size": model["d_model"]}


class RoFormerFamily(BertLike):
    """Pairs of neighbouring channels turn, instead of a table of positions. Its classifiers have an activation of their
    own: they start fresh. The table of angles that files hold is left out, since its numbers follow from its size."""

    model_type = "roformer"
    architectures: ClassVar[Architectures] = {
        "RoFormerForMaskedLM": "masked_language_model",
        "RoFormerForTokenClassification": "tagger",
        "RoFormerForQuestionAnswering": "span",
        "RoFormerForSequenceClassification": None,
        "RoFormerForMultipleChoice": None,
        "RoFormerForCausalLM": None,
        "RoFormerModel": None,
    }
    prefix = "roformer."
    heads = ("cls.", "classifier.", "qa_outputs.", "sequence_summary.")
    buffers = (r"roformer\.encoder\.embed_positions\.weight",)
    defaults: ClassVar[Hub] = {**BertLike.defaults, "embedding_size": None}
    accepts: ClassVar[Accepted] = {**BertLike.accepts, "rotary_value": (False,)}
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": RESTORED,
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
    }
    vocabulary_bias = "cls.predictions.bias"

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        return hub if hub["embedding_size"] is None else _with_wide_embedding(hub, "choose another checkpoint")

    def position_overrides(self, hub: Hub) -> list[str]:
        del hub
        return ["model/position=rotary", f"model.position.base={_BASE}", "model.position.pairing=interleaved"]

    def position_table(self, hub: Hub) -> Iterator[WeightMapping]:
        """Yield nothing: positions are rotary."""
        del hub
        return iter(())

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "cls.predictions.decoder.bias": "cls.predictions.bias",
            "cls.predictions.decoder.weight": f"{self.prefix}embeddings.word_embeddings.weight",
        }

    def words(self, model: Model) -> Describable:
        rotary = {"position.base": (_BASE,), "position.pairing": ("interleaved",), "position.fraction": (1.0,)}
        return {**super().words(model), "position": ("Rotary",), **rotary}

    def hub_config(self, model: Model) -> HubConfig:
        return {**super().hub_config(model), "embedding_size": model["d_model"], "rotary_value": False}


_BASE = 10000.0


def _with_wide_embedding(hub: Hub, remedy: str) -> Hub:
    """Return the fields; refuse embeddings of another width than layers have."""
    if hub["embedding_size"] != hub["hidden_size"]:
        raise InexpressibleError(
            f"its config.json has embedding_size={hub['embedding_size']} and hidden_size={hub['hidden_size']}, and "
            f"ours are the same: {remedy}"
        )
    return hub
