"""A run that starts from another reads text as that one did, or is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headtohead as h2h
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data, tokenizer_to_take
from headtohead.finished_runs.finished_run import open_run
from headtohead.records.record import RunRecord

SMALL = [
    "data.num_train=60", "data.num_validation=20", "data.num_test=20", "data.batch_size=4", "model.d_model=16",
    "model/position=rotary", "model.num_heads=2", "model.num_layers=1", "trainer=cpu", "trainer.max_steps=2",
    "trainer.validate_every=2", "trainer.progress_bar=false", "tracking=none", "probe.at_end=false",
]  # fmt: skip
CORPUS = ["model=encoder_only", "task=masked_lm", "data=grammar_lm", "data.tokenizer=char", "data.context_length=8"]
REVIEWS = ["model=encoder_only", "task=classification", "data=sentence_grammar"]
Compose = Callable[..., dict]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outputs")


@pytest.fixture(scope="module")
def first(outputs: Path) -> RunRecord:
    return h2h.train(h2h.compose("train", [*CORPUS, *SMALL, f"output_dir={outputs}"]))


def second(outputs: Path, first: RunRecord, *overrides: str) -> dict:
    return h2h.compose("train", [*REVIEWS, *SMALL, f"output_dir={outputs}", f"init_from=run:{first.path}", *overrides])


@pytest.mark.slow
def test_text_is_read_with_the_tokenizer_of_the_run(outputs: Path, first: RunRecord) -> None:
    parts = h2h.build_parts(second(outputs, first))
    assert parts.data.spec().tokenizer_hash == first.comparability.tokenizer
    assert parts.config["data"]["tokenizer"] == "char" and parts.config["data"]["vocab_size"] is None
    assert parts.config["model"]["vocab_size"] == first.config["model"]["vocab_size"]
    text = parts.data.decode(parts.data.split("train").batch(np.zeros(1, dtype=np.int64)).tokens[0].tolist())
    assert " " in text and "<unk>" not in text[:4]


@pytest.mark.slow
def test_a_fine_tuned_run_says_what_it_took_and_needs_its_first_run_no_more(
    outputs: Path, first: RunRecord, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy"
    copy.symlink_to(first.path)
    with caplog.at_level(logging.INFO):
        record = h2h.train(second(outputs, first, f"init_from=run:{copy}", "finetuning=head_only"))
    sentence = [message for message in caplog.messages if message.startswith("init_from=")]
    assert len(sentence) == 1
    assert (
        "taken: embedding" in sentence[0] and "fresh: head.linear" in sentence[0] and "left aside: head" in sentence[0]
    )
    totals = record.costs["totals"]
    assert totals["trained_parameters"] == 2 * 16 + 2 < totals["parameters"]
    copy.unlink()
    assert open_run(record.path).data.spec().tokenizer_hash == first.comparability.tokenizer
    again = {**record.config, "resume_from": str(record.path)}
    assert tokenizer_to_take(again) == tokenizer_to_take({**record.config, "init_from": str(first.path)})


@pytest.mark.slow
def test_ids_that_mean_something_else_are_refused(outputs: Path, first: RunRecord) -> None:
    other = ["model=encoder_only", "task=masked_lm", "data=associative_recall", "model/size=tiny"]
    small = [part for part in SMALL if not part.startswith(("model.", "data."))]
    config = h2h.compose("train", [*other, *small, "data.num_train=60", f"init_from=run:{first.path}"])
    sentence = r"on data=grammar_lm, and the token ids of data=associative_recall mean nothing to its weights"
    with pytest.raises(ConfigurationError, match=sentence):
        h2h.build_parts(config)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("model.d_model=32", r"does not fit this model: .* x 16 there and .* x 32 here"),
        ("model/feedforward=swiglu", "does not fit this model"),
        ("model.num_layers=9", "too few for an initialisation"),
        ("model=text_cnn", "too few for an initialisation"),
    ],
)
def test_a_model_that_the_weights_do_not_fit_is_refused_before_there_is_a_run(
    outputs: Path, tmp_path: Path, first: RunRecord, change: str, sentence: str
) -> None:
    of_other = ("model/position", "model.num_heads", "model.num_layers") if change == "model=text_cnn" else ()
    small = [word for word in SMALL if word.partition("=")[0] not in (change.partition("=")[0], *of_other)]
    config = h2h.compose(
        "train", [*REVIEWS, *small, change, f"output_dir={tmp_path / 'new'}", f"init_from=run:{first.path}"]
    )
    with pytest.raises(ValueError, match=sentence):
        h2h.train(config)
    assert not (tmp_path / "new").exists()


def test_what_weights_do_not_tell_of_the_model_is_said(
    outputs: Path, first: RunRecord, caplog: pytest.LogCaptureFixture
) -> None:
    h2h.build_parts(second(outputs, first, "model.num_heads=4", "model/feedforward=relu"))
    assert any("model.num_heads=4 differs from 2 there" in message for message in caplog.messages)
    assert any("activation=relu differs from gelu there" in message for message in caplog.messages)
    caplog.clear()
    h2h.build_parts(second(outputs, first, "model.dropout=0.3"))
    assert not caplog.messages


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("finetuning.freeze=neck", "must be nothing or embedding or body or a whole number"),
        ("finetuning.layer_decay=0", "must be above 0 and at most 1"),
        ("finetuning=headonly", "did you mean head_only"),
    ],
)
def test_a_wrong_choice_of_what_learns_is_refused_by_name(override: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        h2h.compose("train", [override])


@pytest.mark.parametrize(("layers", "sentence"), [(0, "at least 1"), (7, "freezes layers, .* give 1, nothing")])
def test_only_layers_that_there_are_can_be_frozen(layers: int, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"finetuning\.freeze={layers} .*{sentence}"):
        h2h.compose("train", [*REVIEWS, *SMALL, f"finetuning.freeze={layers}"])


def test_data_without_text_takes_no_tokenizer(first: RunRecord) -> None:
    config = h2h.compose("train", ["model=vision_transformer", "task=image_classification", "data=digits"])
    data = build_data({**config, "init_from": str(first.path)})
    assert data.tokenizer_facts() is None and data.spec().vocab_size == 0


@pytest.mark.slow
def test_rows_are_cut_to_the_positions_that_the_weights_know(
    outputs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = [word for word in SMALL if "position" not in word]
    first = h2h.train(h2h.compose("train", [*CORPUS, *table, "model/position=learned", f"output_dir={outputs}"]))
    reviews = tmp_path / "reviews.csv"
    reviews.write_text("text,label\n" + "".join(f"a long review of number {n},{n % 2}\n" for n in range(60)))
    provided = [
        "model=encoder_only",
        "model/position=learned",
        "task=classification",
        "data=csv",
        f"data.path={reviews}",
    ]
    own = [word for word in table if not word.startswith("data.num")]
    config = h2h.compose("train", [*provided, *own, f"init_from=run:{first.path}", f"output_dir={outputs}"])
    with caplog.at_level(logging.WARNING):
        record = h2h.train(config)
    known = first.config["model"]["max_length"]
    assert record.status == "finished" and record.config["data"]["max_length"] == known
    assert f"knows {known} positions: 60 of 60 rows are cut to as many tokens (data.max_length={known})" in caplog.text
    shorter = h2h.compose("train", [*provided, *own, f"init_from=run:{first.path}", "data.max_length=8"])
    assert h2h.build_parts(shorter).config["data"]["max_length"] == 8
    rotary = [word.replace("learned", "rotary") for word in provided]
    free = h2h.compose("train", [*rotary, *own, f"init_from=run:{first.path}"])
    assert h2h.build_parts(free).config["data"]["max_length"] is None
