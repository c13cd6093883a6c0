"""Encoders of long texts whose attention is sparse: BigBird (Zaheer et al. 2020, https://arxiv.org/abs/2007.14062) and
Longformer (Beltagy et al. 2020, https://arxiv.org/abs/2004.05150)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.bert_like import BertFamily, BertLike, RobertaFamily, RobertaLike
from headtohead.pretrained.model_description import Describable, Model, attention_fields, described
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    flag,
    our_activation,
)

_SPARSE, _FULL = "block_sparse", "original_full"


class BigBirdFamily(BertLike):
    """BERT whose blocks of tokens attend to their neighbours, to the first and the last block and to random ones.

    Given the same random blocks it is equal to the reference; three things differ by design. The reference draws the
    blocks for each head, and in evaluation puts block 0 in place of all of them; ours are drawn once for each layer and
    stay. Its last block is that of the padded row, ours that of each row's own tokens. It reads rows of at most (5 + 2
    x random) blocks with full attention, ours does so where config.json has attention_type=original_full.
    """

    model_type = "big_bird"
    architectures: ClassVar[Architectures] = {
        "BigBirdForMaskedLM": "masked_language_model",
        "BigBirdForPreTraining": "masked_language_model_and_pair",
        "BigBirdForSequenceClassification": "classifier",
        "BigBirdForTokenClassification": "tagger",
        "BigBirdForQuestionAnswering": None,
        "BigBirdForMultipleChoice": None,
        "BigBirdModel": None,
    }
    prefix = "bert."
    heads = ("cls.", "classifier.", "qa_classifier.", "bert.pooler.")
    head_parts: ClassVar[Mapping[HeadName, tuple[tuple[str, str], ...]]] = {
        "masked_language_model": BertFamily.head_parts["masked_language_model"],
        "masked_language_model_and_pair": (
            *BertFamily.head_parts["masked_language_model"],
            ("pooler", "bert.pooler"),
            ("pair", "cls.seq_relationship"),
        ),
        "classifier": (("pooler.dense", "classifier.dense"), ("linear", "classifier.out_proj")),
        "tagger": (("linear", "classifier"),),
    }
    vocabulary_bias = "cls.predictions.bias"
    defaults: ClassVar[Hub] = {
        **BertLike.defaults,
        "hidden_act": "gelu_new",
        "attention_type": _SPARSE,
        "block_size": 64,
        "num_random_blocks": 3,
        "rescale_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {**BertLike.accepts, "use_bias": (True,), "attention_type": (_SPARSE, _FULL)}

    def mixing(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        if hub["attention_type"] == _FULL:
            return ["model/mixer=softmax_attention"]
        return [
            "model/mixer=bigbird",
            f"model.mixer.block_size={hub['block_size']}",
            f"model.mixer.num_random={hub['num_random_blocks']}",
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        if hub["attention_type"] == _SPARSE:
            few = (5 + 2 * hub["num_random_blocks"]) * hub["block_size"]
            yield (
                f"rows of at most {few} tokens attend sparsely here and in full in the reference, which in longer rows "
                "puts block 0 in place of random ones when it is evaluated"
            )

    def heading(self, hub: Hub) -> list[str]:
        """Return the overrides for the heads: the classifier has the layers' activation; the pair classifier has a
        tanh, as in BERT."""
        activation = our_activation(hub["hidden_act"])
        return [
            f"model.head_activation={activation}",
            f"model.pooler={activation}",
            f"model.scale_embedding={flag(hub['rescale_embeddings'])}",
        ]

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "cls.predictions.decoder.bias": "cls.predictions.bias",
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        }

    def hub_config(self, model: Model) -> dict[str, Any]:
        own = {**super().hub_config(model), "rescale_embeddings": model["scale_embedding"], "sep_token_id": None}
        if described(model, "mixer") != "BigBird":
            return {**own, "attention_type": _FULL}
        blocks = {
            "block_size": described(model, "mixer.block_size"),
            "num_random_blocks": described(model, "mixer.num_random"),
        }
        return {**own, "attention_type": _SPARSE, **blocks}

    def words(self, model: Model) -> Describable:
        activation = described(model, "feedforward.activation")
        return {**super().words(model), "pooler": (activation,), "scale_embedding": (True, False)}

    def mixer_words(self, model: Model) -> Describable:
        if described(model, "mixer") != "BigBird":
            return attention_fields(model)
        return {
            "mixer": ("BigBird",),
            "mixer.bias": (True,),
            "mixer.output_bias": (None, True),
        }


class LongformerFamily(RobertaLike):
    """RoBERTa with windows; the first token is global, as the reference makes it for a classifier.

    For hidden tokens the reference makes none global by default, which leaves the projections of global tokens idle;
    for questions it makes all tokens of the question global, so that its head for answers is not ours.
    """

    model_type = "longformer"
    architectures: ClassVar[Architectures] = {
        "LongformerForMaskedLM": "masked_language_model",
        "LongformerForSequenceClassification": "classifier",
        "LongformerForTokenClassification": "tagger",
        "LongformerForQuestionAnswering": None,
        "LongformerForMultipleChoice": None,
        "LongformerModel": None,
    }
    prefix = "longformer."
    heads = ("lm_head.", "classifier.", "qa_outputs.", "longformer.pooler.")
    defaults: ClassVar[Hub] = {**RobertaFamily.defaults, "attention_window": 512}
    accepts: ClassVar[Accepted] = {**RobertaLike.accepts, "attention_mode": ("longformer",)}
    more_of_a_layer: ClassVar[tuple[tuple[str, str], ...]] = tuple(
        (f"mixer.global_{name}", f"attention.self.{name}_global") for name in ("query", "key", "value")
    )

    def mixing(self, hub: Hub, head: HeadName) -> list[str]:
        """Return the overrides of the mixer; the hub's window counts both sides."""
        del head
        windows = hub["attention_window"]
        if not isinstance(windows, int):
            if len(set(windows)) != 1:
                raise InexpressibleError(
                    f"its config.json has attention_window={windows}, and all layers of ours have the same window: "
                    "choose another checkpoint"
                )
            windows = windows[0]
        return ["model/mixer=longformer", f"model.mixer.window={windows // 2}", "model.mixer.num_global=1"]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del hub
        if head in ("masked_language_model", "tagger"):
            yield "its first token is global here, and in the reference where global_attention_mask says so alone"

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        window = 2 * described(model, "mixer.window")
        return {**config, "attention_window": [window] * model["num_layers"], "sep_token_id": 2}

    def mixer_words(self, model: Model) -> Describable:
        del model
        return {
            "mixer": ("Longformer",),
            "mixer.num_global": (1,),
            "mixer.bias": (True,),
            "mixer.output_bias": (None, True),
        }
