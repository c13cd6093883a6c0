"""Runs that start from a folder as `save_pretrained` leaves it: encoders that classify, encoder-decoders that write."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
)

import headtohead as h2h
from headtohead.finished_runs.finished_run import open_run
from headtohead.pretrained.hub_checkpoint import open_checkpoint
from headtohead.pretrained.weight_conversion import convert_weights
from parity.parity import redraw

WORDS = ["good", "bad", "very", "film", "book", "the", "a", "is", "was", "not", "##ly", "red", "blue", "green", "one"]
QUIET = (
    "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.progress_bar=false", "tracking=none",
    "probe.at_end=false", "data.batch_size=4",
)  # fmt: skip


def save(model: PreTrainedModel, folder: Path, *, special: tuple[str, ...], **named: str) -> Path:
    """Save the model with a tokenizer of whole words and their ends, and every weight redrawn."""
    redraw(model)
    model.save_pretrained(folder)
    ids = {token: number for number, token in enumerate((*special, *WORDS))}
    words = Tokenizer(models.WordPiece(ids, unk_token=named["unk_token"]))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    if "cls_token" in named:
        first, last = ((named[name], ids[named[name]]) for name in ("cls_token", "sep_token"))
        words.post_processor = processors.BertProcessing(last, first)
    PreTrainedTokenizerFast(tokenizer_object=words, **named).save_pretrained(folder)
    return folder


def bert(reference: Any, folder: Path, **changes: Any) -> Path:
    config = BertConfig(
        vocab_size=24, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=20, **changes,
    )  # fmt: skip
    return save(
        reference(config), folder, special=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), pad_token="[PAD]",
        unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    rows = [f"the {thing} is {how} {word},{label}" for thing in ("film", "book") for how in ("very", "not")
            for word, label in (("good", "up"), ("bad", "down"), ("red", "up"), ("blue", "down"))]  # fmt: skip
    path.write_text("text,label\n" + "\n".join(rows * 3) + "\n")
    return path


def classify(folder: Path, reviews: Path, *overrides: str) -> dict[str, Any]:
    return h2h.compose(
        "train",
        ["task=classification", "data=csv", f"data.path={reviews}", "data.validation_share=0.2", "data.test_share=0.2",
         f"init_from=hf:{folder}", f"output_dir={reviews.parent / 'outputs'}", *QUIET, *overrides],
    )  # fmt: skip


@pytest.mark.slow
def test_a_masked_model_learns_to_classify_with_its_own_words_and_a_fresh_head(
    tmp_path: Path, reviews: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = bert(BertForMaskedLM, tmp_path / "bert")
    with caplog.at_level(logging.INFO):
        record = h2h.train(classify(folder, reviews, "finetuning=layer_decay"))
    sentence = next(message for message in caplog.messages if ": taken: " in message)
    assert "taken: embedding" in sentence and "fresh: head" in sentence and "left aside: cls.predictions" in sentence
    assert record.status == "finished" and record.config["model"]["d_model"] == 24
    assert record.path is not None
    data = open_run(record.path).data
    spec = data.spec()
    assert spec.vocab_size == 5 + len(WORDS) and spec.num_classes == 2


@pytest.mark.slow
def test_a_classifier_that_is_not_trained_says_what_its_reference_says(tmp_path: Path, reviews: Path) -> None:
    folder = bert(BertForSequenceClassification, tmp_path / "bert", id2label={0: "down", 1: "up"})
    record = h2h.train(classify(folder, reviews, "optimizer.lr=1e-12"))
    assert record.path is not None
    run = open_run(record.path)
    reference = BertForSequenceClassification.from_pretrained(folder).eval()
    batch = run.data.split("test").batch(torch.arange(2).numpy())
    inputs = batch.inputs()
    with torch.no_grad():
        ours = run.model.eval()(**inputs)
        theirs = reference(input_ids=inputs["tokens"], attention_mask=inputs["valid"].long()).logits
    assert (ours - theirs).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("reference", "message", "has_head"),
    [
        (BertForPreTraining, ["BertForPreTraining"], True),
        (BertForMaskedLM, None, True),
        (BertForSequenceClassification, ["BertForSequenceClassification"], False),
    ],
)
def test_the_masked_head_is_taken_where_there_is_one(
    reference: Any, message: list[str] | None, has_head: bool, tmp_path: Path
) -> None:
    folder = bert(reference, tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": message}))
    taken = convert_weights(open_checkpoint(f"hf:{folder}"), "masked_language_model")
    assert taken.has_head == has_head and ("head.dense.weight" in taken.weights) == has_head
    assert ("bert.pooler.dense.weight" in taken.left_aside) == (reference is not BertForMaskedLM)


@pytest.mark.slow
def test_t5_learns_to_write_from_the_weights_of_its_reference(tmp_path: Path) -> None:
    started: dict[str, Any] = {"decoder_start_token_id": 0}
    sizes = T5Config(vocab_size=24, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3, **started)
    folder = save(
        T5ForConditionalGeneration(sizes), tmp_path / "t5", special=("<pad>", "</s>", "<unk>"), pad_token="<pad>",
        eos_token="</s>", unk_token="<unk>",
    )  # fmt: skip
    pairs = tmp_path / "pairs.csv"
    lines = [f"the {first} {second},{second} {first}" for first in WORDS[:4] for second in WORDS[3:8]]
    pairs.write_text("source,target\n" + "\n".join(lines) + "\n")
    config = h2h.compose(
        "train",
        ["task=seq2seq", "data=csv", f"data.path={pairs}", "data.validation_share=0.2", "data.test_share=0.2",
         f"init_from=hf:{folder}", f"output_dir={tmp_path / 'outputs'}", *QUIET],
    )  # fmt: skip
    record = h2h.train(config)
    assert record.status == "finished"
    assert record.config["model"]["position"]["_target_"].endswith("T5Bias") and record.config["model"]["scale_logits"]
    assert record.metrics["validation"]["loss"] > 0


def encoder_decoder(reference: Any, folder: Path) -> Path:
    if reference is BartForConditionalGeneration:
        config = BartConfig(
            vocab_size=24, d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
            decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=20,
            decoder_start_token_id=0, pad_token_id=0, bos_token_id=2, eos_token_id=1, forced_eos_token_id=None,
        )  # fmt: skip
    else:
        config = T5Config(
            vocab_size=24, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_decoder_layers=3, num_heads=3,
            decoder_start_token_id=0,
        )  # fmt: skip
    return save(
        reference(config), folder, special=("<pad>", "</s>", "<s>", "<unk>"), pad_token="<pad>", bos_token="<s>",
        eos_token="</s>", unk_token="<unk>",
    )  # fmt: skip


READERS = [T5ForConditionalGeneration, T5EncoderModel, BartForConditionalGeneration]


@pytest.mark.slow
@pytest.mark.parametrize("reference", READERS)
def test_the_encoder_of_an_encoder_decoder_classifies_and_says_what_its_reference_does(
    reference: Any, tmp_path: Path, reviews: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = encoder_decoder(reference, tmp_path / "two_sided")
    with caplog.at_level(logging.INFO):
        record = h2h.train(classify(folder, reviews, "optimizer.lr=1e-12"))
    assert record.status == "finished" and record.path is not None
    assert record.config["model"]["_target_"].endswith("EncoderOnly") and record.config["model"]["num_layers"] == 2
    sentence = next(message for message in caplog.messages if ": taken: " in message)
    assert "fresh: head" in sentence and ("decoder" in sentence) == (reference is not T5EncoderModel)
    run = open_run(record.path)
    inputs = run.data.split("test").batch(torch.arange(3).numpy()).inputs()
    theirs = reference.from_pretrained(folder).eval().get_encoder()
    with torch.no_grad():
        ours = run.model.eval().features(**inputs)
        expected = theirs(input_ids=inputs["tokens"], attention_mask=inputs["valid"].long()).last_hidden_state
    assert (ours - expected)[inputs["valid"]].abs().max() < 5e-5


@pytest.mark.parametrize("reference", READERS)
def test_every_weight_of_an_encoder_has_a_gradient(reference: Any, tmp_path: Path, reviews: Path) -> None:
    config = classify(encoder_decoder(reference, tmp_path / "two_sided"), reviews)
    model = h2h.build_model(config)
    model(torch.randint(4, 20, (3, 7))).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "task"),
    [
        ("tagger", "task=tagging data=tagging_grammar data.num_train=500"),
        ("span", "task=span_qa data=qa_grammar data.num_train=500"),
    ],
)
def test_other_heads_that_read_take_the_encoder_too(head: Any, task: str, tmp_path: Path) -> None:
    folder = encoder_decoder(T5ForConditionalGeneration, tmp_path / "t5")
    taken = convert_weights(open_checkpoint(f"hf:{folder}"), head)
    model = h2h.build_model(h2h.compose("train", [*task.split(), f"init_from=hf:{folder}"]))
    own = {name for name, _ in model.named_parameters() if not name.startswith("head.")}
    assert own == set(taken.weights) and not taken.has_head
    assert any(name.startswith("decoder.") for name in taken.left_aside)
