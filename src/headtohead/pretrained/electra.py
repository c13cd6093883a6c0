"""ELECTRA (Clark et al. 2020, https://arxiv.org/abs/2003.10555): BERT that was trained to find replaced tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.bert_like import BertLike
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import Architectures, Hub, HubConfig, InexpressibleError


class ElectraFamily(BertLike):
    """The discriminator is an encoder for other heads, its own left out; a generator restores tokens. Embeddings are as
    wide as layers, as in the published base and large discriminators: narrower ones are refused."""

    model_type = "electra"
    architectures: ClassVar[Architectures] = {
        "ElectraForMaskedLM": "masked_language_model",
        "ElectraForSequenceClassification": "classifier",
        "ElectraForTokenClassification": "tagger",
        "ElectraForQuestionAnswering": "span",
        "ElectraForPreTraining": None,
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
    }
    vocabulary_bias = "generator_lm_head.bias"

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        if hub["embedding_size"] != hub["hidden_size"]:
            raise InexpressibleError(
                f"its config.json has embedding_size={hub['embedding_size']} and hidden_size={hub['hidden_size']}, and "
                "ours are the same: choose a base or large discriminator"
            )
        return hub

    def heading(self, hub: Hub) -> list[str]:
        """Return the overrides for the heads, which have an exact GELU whatever the layers have."""
        del hub
        return ["model.head_activation=gelu", f"model.pooler={self.pooler}"]

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {"generator_lm_head.weight": f"{self.prefix}embeddings.word_embeddings.weight"}

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "head_activation": ("gelu",)}

    def hub_config(self, model: Model) -> HubConfig:
        return {**super().hub_config(model), "embedding_size": model["d_model"]}
