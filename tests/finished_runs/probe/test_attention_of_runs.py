"""The attention of a finished run: as trained, with the mask the other way round, sample by sample, on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import headtohead as h2h
from fresh_runs import ROWS, fresh_run
from headtohead.config.errors import ConfigurationError
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.probe.attention_page import attention_content, half_floats
from headtohead.finished_runs.probe.attention_probe import Attention, attention_of
from headtohead.finished_runs.probe.position_encodings import fresh_model
from headtohead.finished_runs.probe.probe_files import folder_for, write_attention
from headtohead.finished_runs.probe.probe_input import of_rows
from headtohead.interpretability.map_archive import read_maps
from headtohead.interpretability.recorded_attention import attention_maps


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    made = tmp_path_factory.mktemp("attention")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(made / "cache"))
        yield fresh_run(made, "model=encoder_decoder", "task=seq2seq", "data=number_words", *ROWS)


@pytest.fixture(scope="module")
def attention(translator: FinishedRun) -> Attention:
    return attention_of(translator, of_rows(translator, "test", [0, 1, 2]))


def test_every_kind_is_there_and_only_a_memory_has_no_other_mask(attention: Attention) -> None:
    names = {pair.trained.name: pair.changed for pair in attention.pairs}
    assert list(names) == [
        "encoder.0.mixer", "encoder.1.mixer",
        "decoder.0.mixer", "decoder.0.cross", "decoder.1.mixer", "decoder.1.cross",
    ]  # fmt: skip
    assert {name for name, changed in names.items() if changed is None} == {"decoder.0.cross", "decoder.1.cross"}


def test_other_mask_shows_the_same_head_with_and_without_the_future(attention: Attention) -> None:
    pairs = {pair.trained.name: pair for pair in attention.pairs}
    for name, causal in (("encoder.1.mixer", False), ("decoder.1.mixer", True)):
        pair = pairs[name]
        assert pair.changed is not None
        assert (pair.trained.causal, pair.changed.causal) == (causal, not causal)
        masked, free = (pair.trained, pair.changed) if causal else (pair.changed, pair.trained)
        assert masked.weights.triu(1).abs().max() == 0 < free.weights.triu(1).max()
        # With the future hidden, what is left keeps its proportions: the scores are the same.
        saved = free.weights.tril()
        share = saved / saved.sum(-1, keepdim=True).clamp(min=1e-9)
        assert torch.allclose(share, masked.weights, atol=1e-5)


def test_maps_as_trained_are_those_of_the_model_itself(translator: FinishedRun, attention: Attention) -> None:
    inputs = of_rows(translator, "test", [0, 1, 2]).batch.inputs()
    for own, expected in zip(attention.maps, attention_maps(translator.model, inputs), strict=True):
        assert torch.equal(own.weights, expected.weights)


def test_one_sample_alone_has_no_padding_and_rows_that_sum_to_one(attention: Attention) -> None:
    for pair in attention.pairs:
        for sample in range(3):
            alone = pair.of_sample(sample)
            assert alone.trained.query_valid is None and alone.trained.key_valid is None
            assert "<pad>" not in alone.queries[0] + alone.keys[0]
            assert alone.trained.weights.shape[-2:] == (len(alone.queries[0]), len(alone.keys[0]))
            assert torch.allclose(alone.trained.weights.sum(-1), torch.ones(()), atol=1e-5)


def test_page_holds_the_weights_to_three_digits(translator: FinishedRun, attention: Attention) -> None:
    import base64

    content = attention_content(translator, attention)
    assert [kind["name"] for kind in content["kinds"]] == [
        "encoder self-attention", "decoder self-attention", "cross-attention",
    ]  # fmt: skip
    [pair] = [pair for pair in attention.pairs if pair.trained.name == "decoder.1.cross"]
    drawn = content["kinds"][2]["layers"][1]["maps"][2]
    sent = np.frombuffer(base64.b64decode(drawn["weights"]["trained"]), dtype="<f2").astype(np.float32)
    weights = pair.of_sample(2).trained.weights[0].numpy()
    assert np.allclose(sent.reshape(weights.shape), weights, rtol=1e-3, atol=1e-6)
    assert half_floats(np.array([0.5])) == "ADg="


@pytest.mark.slow
def test_files_hold_exact_weights_labels_and_pictures(
    translator: FinishedRun, attention: Attention, tmp_path: Path
) -> None:
    done: list[None] = []
    files = write_attention(translator, attention, tmp_path, done=lambda: done.append(None))
    assert files[-1].name == "attention.html" and len(done) == 6 + 4
    names = {file.name for file in files}
    assert {"decoder.0.mixer.png", "decoder.0.mixer.without_mask.npz", "encoder.0.mixer.with_mask.png"} <= names
    stored = read_maps(tmp_path / "decoder.0.cross.npz")
    [pair] = [pair for pair in attention.pairs if pair.trained.name == "decoder.0.cross"]
    assert torch.equal(stored.maps.weights, pair.trained.weights) and stored.keys == pair.keys
    with Image.open(tmp_path / "decoder.0.cross.png") as picture:
        assert picture.width > 200
    assert (tmp_path / "statistics.csv").read_text().count("\n") == 1 + 6 * 2


def test_texts_that_begin_alike_have_folders_of_their_own(tmp_path: Path) -> None:
    long = "the same beginning of two texts that go on for a while, "
    folders = {folder_for([long + end], tmp_path) for end in ("a", "b")} | {folder_for([long, "a"], tmp_path)}
    assert len(folders) == 3
    assert all(folder.parent == tmp_path and len(folder.name) < 60 for folder in folders)
    assert folder_for(["../../etc"], tmp_path).parent == tmp_path


def test_python_opens_a_run_and_asks_for_its_attention(translator: FinishedRun) -> None:
    run = h2h.load_run(translator.folder)
    attention = run.attention("12", target="one")
    assert attention.maps[0].weights.shape == (1, 2, 2, 2)
    assert len(attention.statistics["decoder.0.cross"]["entropy"]) == 2
    assert attention.pairs[3].queries == [["<bos>", *"one"]]


def test_a_model_with_nothing_to_show_says_so(translator: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtohead.finished_runs.probe.attention_probe.all_maps", lambda *_, **__: [])
    with pytest.raises(ValueError, match="has nothing to show"):
        attention_of(translator, of_rows(translator, "test", [0]))


def test_a_run_is_compared_with_what_it_was_before_training(translator: FinishedRun) -> None:
    subject = of_rows(translator, "test", [0])
    trained = attention_of(translator, subject)
    before = attention_of(translator, subject, against=("before training", fresh_model(translator.config).eval()))
    for pair, alone in zip(before.pairs, trained.pairs, strict=True):
        assert pair.other is not None and torch.equal(pair.trained.weights, alone.trained.weights)
        assert torch.equal(pair.forms["difference"].weights, pair.trained.weights - pair.other.weights)
    layer = attention_content(translator, before)["kinds"][0]["layers"][0]["maps"][0]
    assert set(layer["weights"]) == {"trained", "changed", "other", "difference"}
    low, high, _ = layer["scales"]["trained"]
    assert [low, high] == layer["scales"]["other"][:2], "what is compared has one scale"
    assert layer["scales"]["difference"][0] == -layer["scales"]["difference"][1]
    own, other, change = (layer["statistics"][name]["entropy"] for name in ("trained", "other", "difference"))
    assert change == pytest.approx([one - two for one, two in zip(own, other, strict=True)])


def test_a_run_of_another_model_cannot_be_compared(translator: FinishedRun, tmp_path: Path) -> None:
    other = fresh_run(
        tmp_path, "model=encoder_decoder", "task=seq2seq", "data=number_words", *ROWS, "model.num_heads=1"
    )
    with pytest.raises(ConfigurationError, match="no map of the same layer"):
        attention_of(translator, of_rows(translator, "test", [0]), against=("other", other.model))
