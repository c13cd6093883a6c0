"""A run's vectors: of length 1, pooled over true tokens alone, whatever stands beside a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import headtohead as h2h
from fresh_runs import ROWS, fresh_run
from headtohead.config.errors import ConfigurationError
from headtohead.data.row_formats.text_source import TextSource
from headtohead.finished_runs.embedding.embedder import Embedder
from headtohead.finished_runs.loaded_run import LoadedRun

PAIRS = ["data=pair_grammar", "data.relation=next", *ROWS]
KINDS = {
    "encoder": ["model=encoder_only", "task=masked_lm", *PAIRS],
    "both ways": ["model=recurrent", "model.bidirectional=true", "task=classification", *PAIRS],
    "convolutions": ["model=text_cnn", "task=classification", *PAIRS],
    "decoder": ["model=decoder_only", "task=causal_lm", "data=grammar_lm", "data.context_length=24", *ROWS],
    "states": [
        "model=decoder_only",
        "model/mixer=mamba",
        "model/position=none",
        "data=grammar_lm",
        "data.context_length=24",
        *ROWS,
    ],
    "source": ["model=encoder_decoder", "task=seq2seq", "data=number_words", *ROWS],
}
TEXTS = ["anna bought a violin .", "he", "on a sunday peter went to the harbour .", "so she tuned the strings ."]
NUMBERS = ["12", "1205", "7", "99999"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedRun]:
    folder = tmp_path_factory.mktemp("vectors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        made = {kind: fresh_run(folder / "outputs", *overrides) for kind, overrides in KINDS.items()}
        for run in made.values():
            run.data.prepare()
        return made


def texts_of(kind: str) -> list[str]:
    return NUMBERS if kind == "source" else TEXTS


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_have_length_one_and_depend_on_no_other_text(runs: dict[str, LoadedRun], kind: str) -> None:
    run, texts = runs[kind], texts_of(kind)
    together = run.embed(texts)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-6)
    alone = np.concatenate([run.embed(text) for text in texts])
    backwards = run.embed(texts[::-1], batch_size=3)[::-1]
    assert together == pytest.approx(alone, abs=2e-5) and together == pytest.approx(backwards, abs=2e-5)
    cosines = together @ together.T
    assert np.abs(cosines[np.triu_indices(len(texts), 1)]).max() < 0.9999


@pytest.mark.parametrize(
    ("kind", "pooling", "frame"),
    [
        ("encoder", "mean", "both"), ("encoder", "cls", "both"), ("encoder", "last", "both"),
        ("decoder", "mean", "start"), ("decoder", "last", "start"), ("states", "last", "start"),
        ("both ways", "cls", "both"),
        ("source", "mean", "none"), ("source", "last", "none"),
    ],
)  # fmt: skip
@torch.no_grad()
def test_a_vector_is_the_mean_the_first_or_the_last_of_the_features_of_one_row(
    runs: dict[str, LoadedRun], kind: str, pooling: str, frame: str
) -> None:
    run = runs[kind]
    spec = run.data.spec()
    for text, result in zip(texts_of(kind), run.embed(texts_of(kind), pooling=pooling), strict=True):
        assert isinstance(run.data, TextSource)
        tokens = run.data.tokenizer.encode([text])[0].tolist()
        tokens = {"both": [spec.bos_id, *tokens, spec.eos_id], "start": [spec.bos_id, *tokens], "none": tokens}[frame]
        row = torch.tensor([tokens])
        features = (run.model.encode(row) if kind == "source" else run.model.features(row))[0].double().numpy()
        expected = {"mean": features.mean(0), "cls": features[0], "last": features[-1]}[pooling]
        assert result == pytest.approx(expected / np.linalg.norm(expected), abs=2e-5)


def test_the_pooling_is_that_of_the_head_else_the_mean_or_a_decoders_last_token(
    runs: dict[str, LoadedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {kind: Embedder(run).pooling for kind, run in runs.items()}
    assert chosen == {
        "encoder": "mean", "both ways": "mean", "convolutions": "mean", "decoder": "last", "states": "last",
        "source": "mean",
    }  # fmt: skip
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    classifier = fresh_run(tmp_path, "model=encoder_only", "task=classification", "model.pooling=cls", *PAIRS)
    assert Embedder(classifier).pooling == "cls"


def test_a_text_that_is_too_long_is_cut_and_counted(runs: dict[str, LoadedRun]) -> None:
    embedder = Embedder(runs["encoder"])
    room = embedder.maker.max_length - 2
    tokens = embedder.maker.tokenizer.encode([TEXTS[2]])[0]
    long = embedder.maker.tokenizer.decode(list(tokens) * 10)
    cut = embedder.maker.tokenizer.decode(embedder.maker.tokenizer.encode([long])[0][:room])
    assert embedder.embed([long]) == pytest.approx(embedder.embed([cut]), abs=1e-6) and embedder.num_cut == 1


@pytest.mark.parametrize(
    ("kind", "pooling", "texts", "sentence"),
    [
        ("decoder", "cls", TEXTS, "--pooling cls: model=decoder_only of this run reads one way"),
        ("source", "cls", NUMBERS, "reads texts without a start token; choose mean or last"),
        ("convolutions", "last", TEXTS, "model=text_cnn computes one vector for the whole text"),
        ("encoder", "max", TEXTS, "--pooling max is unknown: choose one of cls, mean, last"),
        ("encoder", None, ["a", " "], "text 1 is empty"),
        ("encoder", None, [], "there is no text to embed"),
    ],
)
def test_what_has_no_vector_is_refused(
    runs: dict[str, LoadedRun], kind: str, pooling: str | None, texts: list[str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        runs[kind].embed(texts, pooling=pooling)


@pytest.mark.slow
def test_a_module_of_ones_own_and_data_without_text_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    provided = ["model=external", "model.module._target_=plain_modules.NextToken", "model.module.vocab_size=999"]
    with pytest.raises(ConfigurationError, match="exposes no features: embed with a run of model=encoder_only"):
        fresh_run(tmp_path, *provided, "data.context_length=16", "data.packing=stream", *ROWS).embed("a")
    with pytest.raises(ValueError, match="this run's data contains no text"):
        h2h.load_run(fresh_run(tmp_path, "data=copy", *ROWS).folder).embed("1 2")
