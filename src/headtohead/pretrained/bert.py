"""BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.heads import HeadName
from headtohead.pretrained.bert_like import BertLike
from headtohead.pretrained.family import Architectures, Hub
from headtohead.pretrained.pieces import Piece, Renamed, renamed


class Bert(BertLike):
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

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[Piece]:
        del hub
        if head in ("masked_language_model", "masked_language_model_and_pair"):
            there = "cls.predictions"
            yield from renamed("head.dense", f"{there}.transform.dense")
            yield from renamed("head.norm", f"{there}.transform.LayerNorm")
            yield Renamed("head.bias", f"{there}.bias")
        if head == "masked_language_model_and_pair":
            yield from renamed("head.pooler", "bert.pooler.dense")
            yield from renamed("head.pair", "cls.seq_relationship")
        elif head == "classifier":
            yield from renamed("head.pooler.dense", "bert.pooler.dense")
            yield from renamed("head.linear", "classifier")
        elif head == "tagger":
            yield from renamed("head.linear", "classifier")
        elif head == "span":
            yield from renamed("head.linear", "qa_outputs")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        return {
            "cls.predictions.decoder.bias": "cls.predictions.bias",
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        }
