"""RoBERTa (Liu et al. 2019, https://arxiv.org/abs/1907.11692)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.heads import HeadName
from headtohead.pretrained.bert_like import BertLike
from headtohead.pretrained.family import Architectures, Hub
from headtohead.pretrained.pieces import Piece, Renamed, renamed
from headtohead.pretrained.told import Model, Words


class RobertaLike(BertLike):
    """Places are counted from the one after padding's; the masked head is one module, and so is the classifier."""

    def first_place(self, hub: Hub) -> int:
        """Padding has a place of its own, which no token that counts ever sees."""
        return int(hub["pad_token_id"]) + 1

    def heading(self, hub: Hub) -> list[str]:
        """The masked head has an exact GELU whatever the layers have."""
        del hub
        return ["model.head_activation=gelu", "model.pooler=tanh"]

    def hub_config(self, model: Model) -> dict[str, Any]:
        return {**super().hub_config(model), "pad_token_id": self.defaults["pad_token_id"]}

    def words(self, model: Model) -> Words:
        return {**super().words(model), "head_activation": ("gelu",)}

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[Piece]:
        del hub
        if head == "masked_language_model":
            yield from renamed("head.dense", "lm_head.dense")
            yield from renamed("head.norm", "lm_head.layer_norm")
            yield Renamed("head.bias", "lm_head.bias")
        elif head == "classifier":
            yield from renamed("head.pooler.dense", "classifier.dense")
            yield from renamed("head.linear", "classifier.out_proj")
        elif head == "tagger":
            yield from renamed("head.linear", "classifier")
        elif head == "span":
            yield from renamed("head.linear", "qa_outputs")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "lm_head.decoder.bias": "lm_head.bias",
            "lm_head.decoder.weight": f"{self.prefix}embeddings.word_embeddings.weight",
        }


class Roberta(RobertaLike):
    """One kind of sentence, and no pooler in what was published."""

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
