"""BERT and RoBERTa against `transformers`, with every head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DebertaV2ForQuestionAnswering,
    DebertaV2ForSequenceClassification,
    DebertaV2ForTokenClassification,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForQuestionAnswering,
    DistilBertForSequenceClassification,
    DistilBertForTokenClassification,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraForQuestionAnswering,
    ElectraForSequenceClassification,
    ElectraForTokenClassification,
    FNetConfig,
    FNetForMaskedLM,
    FNetForPreTraining,
    FNetForQuestionAnswering,
    FNetForSequenceClassification,
    FNetForTokenClassification,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
)

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.replaced_tokens import GENERATOR
from headtohead.architectures.vocabulary_heads import MaskedLanguageModelAndPair
from headtohead.pretrained.albert import AlbertFamily
from headtohead.pretrained.bert_descendants import DistilBertFamily, ElectraFamily
from headtohead.pretrained.bert_like import BertFamily, RobertaFamily
from headtohead.pretrained.deberta import DebertaFamily
from headtohead.pretrained.fnet import FNetFamily
from headtohead.pretrained.model_family import ModelFamily
from parity.parity import Case, check
from parity.published_models import MODELS
from parity.token_rows import LENGTH, VOCABULARY, pair_rows

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 40, "attn_implementation": "eager", "num_labels": 3,
}  # fmt: skip
CLASSES = ("model.num_classes=3",)


def bert(reference: Callable[[Any], nn.Module], head: HeadName, **changes: Any) -> Case:
    config = BertConfig(**SIZES, max_position_embeddings=LENGTH + 2, **changes)
    return pairs(BertFamily(), reference, config, head)


def roberta(reference: Callable[[Any], nn.Module], head: HeadName, **changes: Any) -> Case:
    """The table has a row for padding and one before it, and places for two tokens more than there are."""
    config = RobertaConfig(**SIZES, max_position_embeddings=LENGTH + 4, type_vocab_size=2, **changes)
    return pairs(RobertaFamily(), reference, config, head)


def pairs(family: ModelFamily, reference: Callable[[Any], nn.Module], config: Any, head: HeadName) -> Case:
    theirs, ours = pair_rows()
    scored = None if head == "classifier" else ours["valid"]
    sized = CLASSES if head in ("classifier", "tagger") else ()
    return Case(family, reference, config, theirs, ours, head=head, scored=scored, overrides=sized)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_bert_restores_hidden_tokens_as_its_reference_does(activation: str) -> None:
    name = "BERT, masked LM" if activation == "gelu" else "BERT, masked LM, GELU by tanh"
    check(name, bert(BertForMaskedLM, "masked_language_model", hidden_act=activation))


def both_logits(output: Any) -> Tensor:
    return torch.cat([output.prediction_logits.flatten(1), output.seq_relationship_logits], dim=1)


def our_logits(model: Architecture, inputs: Mapping[str, Tensor]) -> Tensor:
    assert isinstance(model.head, MaskedLanguageModelAndPair)
    features = model.features(**inputs)
    return torch.cat([model.head(features).flatten(1), model.head.pair_logits(features, inputs["valid"])], dim=1)


def test_bert_restores_tokens_and_judges_pairs_as_its_reference_does() -> None:
    """Padding's logits are left out: nobody reads them."""
    case = bert(BertForPreTraining, "masked_language_model_and_pair")
    tokens = case.ours["valid"][..., None].expand(-1, -1, VOCABULARY).flatten(1)
    scored = torch.cat([tokens, tokens.new_ones(2, 2)], dim=1)
    check("BERT, masked LM and pairs", replace(case, scored=scored, logits_of=both_logits, requested=our_logits))


def test_bert_classifies_sequences_as_its_reference_does() -> None:
    check("BERT, classification", bert(BertForSequenceClassification, "classifier"))


def test_bert_tags_tokens_as_its_reference_does() -> None:
    check("BERT, tagging", bert(BertForTokenClassification, "tagger"))


def spans(output: Any) -> Tensor:
    return torch.stack([output.start_logits, output.end_logits], dim=-1)


def test_bert_looks_for_answers_as_its_reference_does_where_one_may_lie() -> None:
    theirs, ours = pair_rows()
    config = BertConfig(**{**SIZES, "num_labels": 2}, max_position_embeddings=LENGTH + 2)
    scored = ours["valid"] & (ours["token_types"] == 1)
    case = Case(
        BertFamily(), BertForQuestionAnswering, config, theirs, ours, head="span", scored=scored, logits_of=spans
    )  # fmt: skip
    check("BERT, spans", case, remark="compared where an answer may lie; ours rules out all other places")


def test_roberta_restores_hidden_tokens_as_its_reference_does() -> None:
    check("RoBERTa, masked LM", roberta(RobertaForMaskedLM, "masked_language_model"))


def test_roberta_classifies_sequences_as_its_reference_does() -> None:
    check("RoBERTa, classification", roberta(RobertaForSequenceClassification, "classifier"))


HEADS: dict[HeadName, tuple[str, type[nn.Module], type[nn.Module], type[nn.Module]]] = {
    "masked_language_model": ("masked LM", DistilBertForMaskedLM, ElectraForMaskedLM, DebertaV2ForMaskedLM),
    "classifier": (
        "classification",
        DistilBertForSequenceClassification,
        ElectraForSequenceClassification,
        DebertaV2ForSequenceClassification,
    ),
    "tagger": (
        "tagging",
        DistilBertForTokenClassification,
        ElectraForTokenClassification,
        DebertaV2ForTokenClassification,
    ),
    "span": ("spans", DistilBertForQuestionAnswering, ElectraForQuestionAnswering, DebertaV2ForQuestionAnswering),
}


@pytest.mark.parametrize("head", HEADS)
def test_distilbert_equals_its_reference_with_every_head(head: HeadName) -> None:
    names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
             "intermediate_size": "hidden_dim"}  # fmt: skip
    sizes = {names.get(name, name): value for name, value in SIZES.items()}
    config = DistilBertConfig(**(sizes | _labels(head)), max_position_embeddings=LENGTH + 2)
    case = _with_head(pairs(DistilBertFamily(), HEADS[head][1], config, head))
    theirs = {name: tensor for name, tensor in case.theirs.items() if name != "token_type_ids"}
    check(f"DistilBERT, {HEADS[head][0]}", replace(case, theirs=theirs))


@pytest.mark.parametrize("head", HEADS)
def test_electra_equals_its_reference_with_every_head(head: HeadName) -> None:
    config = ElectraConfig(**(SIZES | _labels(head)), embedding_size=24, max_position_embeddings=LENGTH + 2)
    check(f"ELECTRA, {HEADS[head][0]}", _with_head(pairs(ElectraFamily(), HEADS[head][2], config, head)))


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_electra_finds_replaced_tokens_as_its_reference_does(activation: str) -> None:
    config = ElectraConfig(**SIZES, embedding_size=24, max_position_embeddings=LENGTH + 2, hidden_act=activation)
    case = pairs(ElectraFamily(), ElectraForPreTraining, config, "replaced_token_detector")
    name = "ELECTRA, replaced tokens" if activation == "gelu" else "ELECTRA, replaced tokens, ReLU"
    check(name, replace(case, ours_alone=GENERATOR))


@pytest.mark.parametrize("head", HEADS)
def test_deberta_equals_its_reference_with_every_head(head: HeadName) -> None:
    """The model is as version 3 is published, but for its sizes and its types of sentences."""
    config = DebertaV2Config(
        **(SIZES | _labels(head)), relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False, type_vocab_size=2,
        max_position_embeddings=LENGTH + 2, legacy=False,
    )  # fmt: skip
    check(f"DeBERTa-v3, {HEADS[head][0]}", _with_head(pairs(DebertaFamily(), HEADS[head][3], config, head)))


ALBERT: dict[HeadName, type[nn.Module]] = {
    "masked_language_model": AlbertForMaskedLM,
    "classifier": AlbertForSequenceClassification,
    "tagger": AlbertForTokenClassification,
    "span": AlbertForQuestionAnswering,
}


@pytest.mark.parametrize("head", ALBERT)
def test_albert_equals_its_reference_with_every_head(head: HeadName) -> None:
    sizes = SIZES | _labels(head) | {"num_hidden_layers": 3, "embedding_size": 10}
    config = AlbertConfig(**sizes, max_position_embeddings=LENGTH + 2)
    check(f"ALBERT, {HEADS[head][0]}", _with_head(pairs(AlbertFamily(), ALBERT[head], config, head)))


FNET: dict[HeadName, type[nn.Module]] = {
    "masked_language_model": FNetForMaskedLM,
    "classifier": FNetForSequenceClassification,
    "tagger": FNetForTokenClassification,
    "span": FNetForQuestionAnswering,
}


def fnet(reference: type[nn.Module], head: HeadName) -> Case:
    """The reference takes no mask: no row is padded."""
    no_part = ("num_attention_heads", "attn_implementation")
    sizes = {name: size for name, size in (SIZES | _labels(head)).items() if name not in no_part}
    case = pairs(FNetFamily(), reference, FNetConfig(**sizes, max_position_embeddings=LENGTH + 2), head)
    theirs = {name: tensor for name, tensor in case.theirs.items() if name != "attention_mask"}
    real = torch.ones_like(case.ours["valid"])
    scored = None if case.scored is None else real
    idle = () if head in ("classifier", "masked_language_model_and_pair") else MODELS["fnet"].idle
    return replace(case, theirs=theirs, ours={**case.ours, "valid": real}, scored=scored, idle=idle)


@pytest.mark.parametrize("head", FNET)
def test_fnet_equals_its_reference_with_every_head(head: HeadName) -> None:
    check(f"FNet, {HEADS[head][0]}", _with_head(fnet(FNET[head], head)))


def test_fnet_restores_tokens_and_judges_pairs_as_its_reference_does() -> None:
    case = fnet(FNetForPreTraining, "masked_language_model_and_pair")
    check("FNet, masked LM and pairs", replace(case, scored=None, logits_of=both_logits, requested=our_logits))


def _labels(head: HeadName) -> dict[str, int]:
    return {"num_labels": 2} if head == "span" else {}


def _with_head(case: Case) -> Case:
    """Answers are compared where one may lie."""
    if case.head != "span":
        return case
    scored = case.ours["valid"] & (case.ours["token_types"] == 1)
    return replace(case, scored=scored, logits_of=spans, overrides=())
