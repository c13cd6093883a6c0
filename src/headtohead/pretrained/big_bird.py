"""BigBird (Zaheer et al. 2020, https://arxiv.org/abs/2007.14062)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.bert_like import BertFamily, BertLike
from headtohead.pretrained.model_description import Describable, Model, attention_fields, described
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, flag, our_activation

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
