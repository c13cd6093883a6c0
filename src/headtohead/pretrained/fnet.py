"""FNet (Lee-Thorp et al. 2021, https://arxiv.org/abs/2105.03824): BERT whose attention is a Fourier transform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.bert_like import RESTORED, BertLike
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig
from headtohead.pretrained.weight_mapping import WeightMapping, renamed


class FNetFamily(BertLike):
    """The reference takes no mask, and transforms padding with the text; here a row is as long as its own tokens."""

    model_type = "fnet"
    architectures: ClassVar[Architectures] = {
        "FNetForMaskedLM": "masked_language_model",
        "FNetForPreTraining": "masked_language_model_and_pair",
        "FNetForSequenceClassification": "classifier",
        "FNetForTokenClassification": "tagger",
        "FNetForQuestionAnswering": "span",
        "FNetForNextSentencePrediction": None,
        "FNetForMultipleChoice": None,
        "FNetModel": None,
    }
    prefix = "fnet."
    heads = ("cls.", "classifier.", "qa_outputs.", "fnet.pooler.")
    defaults: ClassVar[Hub] = {**BertLike.defaults, "hidden_act": "gelu_new", "type_vocab_size": 4}
    accepts: ClassVar[Accepted] = {**BertLike.accepts, "use_tpu_fourier_optimizations": (False,)}
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": RESTORED,
        "masked_language_model_and_pair": (
            *RESTORED,
            ("pooler", "fnet.pooler.dense"),
            ("pair", "cls.seq_relationship"),
        ),
        "classifier": (("pooler.dense", "fnet.pooler.dense"), ("linear", "classifier")),
        "tagger": (("linear", "classifier"),),
        "span": (("linear", "qa_outputs"),),
    }
    vocabulary_bias = "cls.predictions.bias"
    layer = (
        ("wiring.norms.0", "fourier.output.LayerNorm"),
        ("feedforward.up", "intermediate.dense"),
        ("feedforward.down", "output.dense"),
        ("wiring.norms.1", "output.LayerNorm"),
    )

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del hub, head
        yield "padding is left out of its transforms here; the reference takes no mask, and transforms it with the text"

    def mixing(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        return ["model/mixer=fourier", f"model.embedding_width={hub['hidden_size']}"]

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        """Return the overrides; a transform has no heads, and published files tell no number of them."""
        return super().overrides({"num_attention_heads": 1, **hub}, head)

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield from super().pieces(hub)
        yield from renamed("stack.widening", f"{self.prefix}embeddings.projection")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "cls.predictions.decoder.bias": "cls.predictions.bias",
            "cls.predictions.decoder.weight": "fnet.embeddings.word_embeddings.weight",
        }

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "embedding_width": (model["d_model"],)}

    def mixer_words(self, model: Model) -> Describable:
        del model
        return {"mixer": ("Fourier",)}

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["attention_probs_dropout_prob"]
        return {**config, "use_tpu_fourier_optimizations": False}
