"""Encoders and encoder-decoders of ours in the hub's form: `transformers` reads them, and says the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from transformers import (
    AlbertForMaskedLM,
    AlbertForSequenceClassification,
    BartForConditionalGeneration,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    BigBirdForMaskedLM,
    ConvNextForImageClassification,
    DebertaV2ForMaskedLM,
    DebertaV2ForSequenceClassification,
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraForSequenceClassification,
    FNetForMaskedLM,
    FNetForSequenceClassification,
    LongformerForSequenceClassification,
    MBartForConditionalGeneration,
    ModernBertForMaskedLM,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RoFormerForMaskedLM,
    SwinForImageClassification,
    T5ForConditionalGeneration,
    ViTForImageClassification,
)

import headtohead as h2h
from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.config.build import make_model
from headtohead.config.origins.to_published import write_hub
from headtohead.pretrained.albert import AlbertFamily
from headtohead.pretrained.bart import BartFamily, MbartFamily
from headtohead.pretrained.bert_descendants import DistilBertFamily, ElectraFamily, RoFormerFamily
from headtohead.pretrained.bert_like import BertFamily, RobertaFamily
from headtohead.pretrained.checkpoint_writer import write_checkpoint
from headtohead.pretrained.convnext import ConvNextFamily
from headtohead.pretrained.deberta import DebertaFamily
from headtohead.pretrained.families import family_of
from headtohead.pretrained.fnet import FNetFamily
from headtohead.pretrained.model_family import InexpressibleError, ModelFamily
from headtohead.pretrained.modernbert import ModernBertFamily
from headtohead.pretrained.sparse_encoders import BigBirdFamily, LongformerFamily
from headtohead.pretrained.swin import SwinFamily
from headtohead.pretrained.t5 import T5Family
from headtohead.pretrained.vit import VitFamily
from parity.parity import TASKS, redraw
from parity.published_models import MODELS as MODELS_OF_REFERENCE
from parity.published_models import reference_config
from parity.token_rows import LENGTH, pair_rows

WIDE = ("model.d_model=24", "model.num_layers=2", "model.num_heads=3", "model.vocab_size=37", "model.max_length=16")
POST = ("model/residual=post", "model.embedding_norm=true", "model.norm.eps=1e-12", "model.feedforward.multiple=1.5")
BERT = ("model=encoder_only", *WIDE, *POST, "model.pooler=tanh", "model.num_classes=3")
ONE_KIND = (*BERT, "model.num_segments=0", "model.pooler=relu")
SHARED = (*BERT, "model.loops=3", "model.embedding_width=10")
FNET = ("model=fnet", *WIDE, "model.norm.eps=1e-12", "model.num_classes=3")
GELU = (*BERT, "model.pooler=gelu")
DEBERTA = (
    *GELU, "model/mixer=disentangled_attention", "model/position=none",
    "model.mixer.num_buckets=8", "model.mixer.max_distance=12", "model.norm.eps=1e-7",
)  # fmt: skip
SEQ2SEQ = ("task=seq2seq", "data=reverse", "model=encoder_decoder", *WIDE, "model.max_target_length=16")
T5_PARTS = (
    "model/position=t5_bias", "model/norm=rms_norm", "model.scale_embedding=false", "model.feedforward.bias=false",
    *(f"model.{part}.{message}" for part in ("mixer", "cross") for message in ("bias=false", "scale=1.0")),
    "model.decoder.num_layers=1",
)  # fmt: skip
GATED = ("model/feedforward=geglu", "model.feedforward.activation=gelu_tanh", "model.tie_weights=false")
BART_PARTS = (
    "model/position=learned", "model/residual=post", "model.embedding_norm=true", "model.head_bias=true",
    "model/feedforward=gelu",
)  # fmt: skip
VIT = (
    "task=image_classification", "data=digits", "model=vision_transformer", *WIDE[:3], "model.num_classes=5",
    "model.image_shape=[3,12,8]", "model.patch_size=4", "model.mixer.bias=false", "model.mixer.output_bias=true",
)  # fmt: skip

CONVNEXT = (
    "task=image_classification", "data=digits", "model=convnext", "model.d_model=24", "model.num_layers=3",
    "model.num_classes=5", "model.image_shape=[3,12,8]", "model.activation=silu",
)  # fmt: skip

SWIN = (
    "task=image_classification", "data=digits", "model=swin", "model.d_model=24", "model.num_layers=5",
    "model.depths=[3,2]", "model.num_heads=6", "model.num_classes=5", "model.image_shape=[3,12,8]",
    "model.patch_size=1", "model.window=2", "model.multiple=1.5",
)  # fmt: skip


MODERN = (
    "model=modernbert", "model.d_model=24", "model.num_layers=4", "model.num_heads=3", "model.feedforward.multiple=2",
    "model.mixers.sliding_window.window=2", "model.vocab_size=37", "model.max_length=16",
)  # fmt: skip


class Exported(NamedTuple):
    """A model of ours, and who reads it."""

    family: ModelFamily
    head: HeadName
    reader: Any
    """A class of `transformers`."""
    overrides: tuple[str, ...]


MODELS = {
    "BERT, masked LM": Exported(BertFamily(), "masked_language_model", BertForMaskedLM, BERT),
    "BERT, three kinds of sentences": Exported(
        BertFamily(),
        "masked_language_model",
        BertForMaskedLM,
        (*BERT, "model.num_segments=3", "model.feedforward.activation=relu", "model.head_activation=relu"),
    ),
    "BERT, with pairs": Exported(BertFamily(), "masked_language_model_and_pair", BertForPreTraining, BERT),
    "BERT, classification": Exported(BertFamily(), "classifier", BertForSequenceClassification, BERT),
    "BERT, tagging": Exported(BertFamily(), "tagger", BertForTokenClassification, BERT),
    "RoBERTa, masked LM": Exported(RobertaFamily(), "masked_language_model", RobertaForMaskedLM, BERT),
    "RoBERTa, classification": Exported(RobertaFamily(), "classifier", RobertaForSequenceClassification, BERT),
    "DistilBERT, masked LM": Exported(DistilBertFamily(), "masked_language_model", DistilBertForMaskedLM, ONE_KIND),
    "DistilBERT, classification": Exported(
        DistilBertFamily(), "classifier", DistilBertForSequenceClassification, ONE_KIND
    ),
    "ELECTRA, masked LM": Exported(ElectraFamily(), "masked_language_model", ElectraForMaskedLM, GELU),
    "ELECTRA, replaced tokens": Exported(ElectraFamily(), "replaced_token_detector", ElectraForPreTraining, GELU),
    "ELECTRA, classification": Exported(ElectraFamily(), "classifier", ElectraForSequenceClassification, GELU),
    "ALBERT, masked LM": Exported(AlbertFamily(), "masked_language_model", AlbertForMaskedLM, SHARED),
    "ALBERT, classification": Exported(AlbertFamily(), "classifier", AlbertForSequenceClassification, SHARED),
    "FNet, masked LM": Exported(FNetFamily(), "masked_language_model", FNetForMaskedLM, FNET),
    "FNet, classification": Exported(FNetFamily(), "classifier", FNetForSequenceClassification, FNET),
    "RoFormer, masked LM": Exported(
        RoFormerFamily(),
        "masked_language_model",
        RoFormerForMaskedLM,
        (*BERT, "model/position=rotary", "model.position.pairing=interleaved"),
    ),
    "DeBERTa-v2, masked LM": Exported(
        DebertaFamily(), "masked_language_model", DebertaV2ForMaskedLM, (*DEBERTA, "model.num_segments=0")
    ),
    "DeBERTa-v2, classification": Exported(
        DebertaFamily(),
        "classifier",
        DebertaV2ForSequenceClassification,
        (
            *(*DEBERTA, "model/position=learned", "model.mixer.own_maps=true"),
            *("model.mixer.num_buckets=null", "model.mixer.max_distance=5", "model.mixer.norm_eps=null"),
            *("model.mixer.position_to_content=false", "model.pooler=tanh"),
        ),
    ),
    "ModernBERT, masked LM": Exported(ModernBertFamily(), "masked_language_model", ModernBertForMaskedLM, MODERN),
    "ModernBERT, biases, windows first": Exported(
        ModernBertFamily(),
        "masked_language_model",
        ModernBertForMaskedLM,
        (
            *MODERN,
            *("model.pattern=[sliding_window,softmax_attention]", "model.mixers.sliding_window.bias=true"),
            *("model.mixers.softmax_attention.bias=true", "model.norm.bias=true", "model.feedforward.bias=true"),
            *("model.head_dense_bias=true", "model.head_bias=false", "model.tie_weights=false"),
        ),
    ),
    "Longformer, classification": Exported(
        LongformerFamily(),
        "classifier",
        LongformerForSequenceClassification,
        (*BERT, "model/mixer=longformer", "model.mixer.window=2", "model.max_length=18"),
    ),
    "BigBird, full attention": Exported(
        BigBirdFamily(),
        "masked_language_model",
        BigBirdForMaskedLM,
        (*BERT, "model.pooler=gelu", "model.scale_embedding=true"),
    ),
    "T5 v1.0": Exported(
        T5Family(), "language_model", T5ForConditionalGeneration, (*SEQ2SEQ, *T5_PARTS, "model.scale_logits=true")
    ),
    "T5, tied head, logits not scaled": Exported(
        T5Family(), "language_model", T5ForConditionalGeneration, (*SEQ2SEQ, *T5_PARTS)
    ),
    "T5 v1.1": Exported(T5Family(), "language_model", T5ForConditionalGeneration, (*SEQ2SEQ, *T5_PARTS, *GATED)),
    "BART": Exported(BartFamily(), "language_model", BartForConditionalGeneration, (*SEQ2SEQ, *BART_PARTS)),
    "mBART": Exported(
        MbartFamily(),
        "language_model",
        MBartForConditionalGeneration,
        (*SEQ2SEQ, *BART_PARTS, "model/residual=pre", "model.scale_embedding=true"),
    ),
    "ViT": Exported(VitFamily(), "classifier", ViTForImageClassification, VIT),
    "Swin": Exported(SwinFamily(), "classifier", SwinForImageClassification, SWIN),
    "ConvNeXt": Exported(ConvNextFamily(), "classifier", ConvNextForImageClassification, CONVNEXT),
}


COMPUTED = {"big_bird": "bert.pooler.", "fnet": "fnet.pooler.", "roformer": "roformer.encoder.embed_positions."}
"""The names of what references hold and no file of ours: a pooler beside every head, a table given by its size."""


def composed(exported: Exported) -> dict[str, Any]:
    return h2h.compose("train", [*TASKS[exported.head], *exported.overrides])


def inputs(exported: Exported) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Theirs, and ours."""
    if "task=image_classification" in exported.overrides:
        images = torch.randn(2, 3, 12, 8, generator=torch.Generator().manual_seed(0))
        return {"pixel_values": images}, {"images": images}
    theirs, ours = pair_rows()
    if exported.head != "language_model":
        if exported.family.model_type == "fnet":  # its reference takes no mask: no row is padded
            theirs, ours = {**theirs}, {**ours, "valid": torch.ones_like(ours["valid"])}
            del theirs["attention_mask"]
        one_kind = "model.num_segments=0" in exported.overrides
        return {name: tensor for name, tensor in theirs.items() if not (one_kind and name == "token_type_ids")}, ours
    source = {name: tensor for name, tensor in theirs.items() if name != "token_type_ids"}
    target = theirs["input_ids"].flip(1)[:, : LENGTH - 3]
    own = {"tokens": ours["tokens"], "valid": ours["valid"], "decoder_tokens": target}
    return {**source, "decoder_input_ids": target}, own


def write(exported: Exported, config: Mapping[str, Any], model: Architecture, folder: Path) -> None:
    """A folder as the hub has them."""
    hub = {**exported.family.hub_config(config["model"]), "architectures": [exported.reader.__name__]}
    write_checkpoint(model, exported.family, hub, folder, None)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", MODELS)
def test_transformers_reads_a_model_of_ours_and_gives_its_logits(name: str, tmp_path: Path) -> None:
    exported = MODELS[name]
    config = composed(exported)
    ours = make_model(config).eval()
    redraw(ours)
    write(exported, config, ours, tmp_path)
    theirs, report = exported.reader.from_pretrained(tmp_path, attn_implementation="eager", output_loading_info=True)
    idle = {name for name in report["missing_keys"] if name.startswith(COMPUTED.get(exported.family.model_type, "-"))}
    assert not any(set(names) - idle for names in report.values()), report
    options, own = inputs(exported)
    with torch.no_grad():
        output, logits = theirs.eval()(**options), ours(**own)
    message = output.prediction_logits if exported.head == "masked_language_model_and_pair" else output.logits
    valid = own.get("valid")
    if valid is not None and logits.shape[:2] == valid.shape:
        message, logits = message[valid], logits[valid]
    assert (message - logits).abs().max() < 5e-5


@pytest.mark.parametrize("name", MODELS)
def test_a_form_composes_the_model_that_it_was_written_for(name: str) -> None:
    exported = MODELS[name]
    config = composed(exported)
    hub = exported.family.written(exported.family.hub_config(config["model"]))
    own_task = [message for message in exported.overrides if message.startswith(("task=", "data="))]
    again = h2h.compose("train", [*TASKS[exported.head], *own_task, *exported.family.overrides(hub, exported.head)])
    first, second = (make_model(filled(one)) for one in (config, again))
    assert str(first) == str(second)


def filled(config: dict[str, Any]) -> dict[str, Any]:
    """Numbers of classes and sizes of images come from data, not from every form."""
    known = {"num_classes": 3, "image_shape": [3, 12, 8]}
    return {**config, "model": {**config["model"], **{key: known[key] for key in known.keys() & config["model"]}}}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "BERT, masked LM",
            "model/residual=pre",
            "model.residual=PreNorm .* which supports only PostNorm",
        ),
        ("BERT, masked LM", "model.tie_weights=false", "model.tie_weights=False .* supports only True"),
        ("BERT, masked LM", "model/mixer=linear_attention", "model.mixer=LinearAttention .* SoftmaxAttention"),
        (
            "FNet, masked LM",
            "model.embedding_width=8",
            "model.embedding_width=8 .* form of fnet, which supports only 24",
        ),
        ("RoBERTa, masked LM", "model.head_activation=relu", "model.head_activation=relu .* form of roberta"),
        ("DeBERTa-v2, masked LM", "model.mixer.shared=false", "model.mixer.shared=False .* supports only True"),
        ("Longformer, classification", "model.mixer.num_global=2", "model.mixer.num_global=2 .* supports only 1"),
        (
            "BigBird, full attention",
            "model.pooler=tanh",
            "model.pooler=tanh .* form of big_bird, which supports only gelu",
        ),
        ("T5 v1.1", "model.scale_logits=true", "model.scale_logits=True .* supports only False"),
        (
            "T5 v1.1",
            "model.feedforward.activation=gelu",
            "model.feedforward.activation=gelu .* supports only gelu_tanh",
        ),
        ("BART", "model/position@model.decoder.position=none", "model.decoder.position=NoPosition .* form of bart"),
        ("ViT", "model.pooling=mean", "model.pooling=mean .* supports only cls"),
        ("Swin", "model.norm.eps=1e-3", "model.norm.eps=0.001 .* form of swin, which supports only 1e-05"),
        ("Swin", "model.window=6", "model.window=6 is wider than its last grid of patches, 4 by side"),
        ("ConvNeXt", "model.kernel=5", "model.kernel=5 .* form of convnext, which supports only 7"),
    ],
)
def test_what_a_form_has_no_word_for_is_refused_with_the_field(name: str, change: str, message: str) -> None:
    exported = MODELS[name]
    config = composed(exported._replace(overrides=(*exported.overrides, change)))
    with pytest.raises(InexpressibleError, match=message):
        exported.family.hub_config(config["model"])


@pytest.mark.parametrize("head", ["classifier", "tagger", "span"])
@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_the_encoder_of_a_two_sided_model_with_a_head_of_ours_is_refused_with_its_own_form_first(
    kind: str, head: HeadName, tmp_path: Path
) -> None:
    hub = reference_config(MODELS_OF_REFERENCE[kind]).to_dict()
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "config.json").write_text(json.dumps(hub))
    family = family_of(hub)
    sized = () if head == "span" else ("model.num_classes=3",)
    config = h2h.compose("train", [*TASKS[head], *family.overrides(family.complete(hub), head), *sized])
    config["init_from"] = f"hf:{tmp_path / 'from'}"
    with pytest.raises(
        InexpressibleError, match=f"{kind}: model=EncoderOnly .* supports only EncoderDecoder.*keep our own"
    ):
        write_hub(make_model(config), config, tmp_path / "to")
    assert not (tmp_path / "to").exists()
