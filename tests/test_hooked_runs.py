"""One tiny run of each kind under the shape checks, so that every module that declares shapes is called under them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import headtohead as h2h
from doctor_runs import CLASSIFIER, DECODER, ENCODER, IMAGES, PAIRS, QUESTIONS, SCORES, TAGGER, TRANSLATOR, findings
from headtohead.diagnostics.peers.training_peers import PlainGpt
from headtohead.finished_runs.embedding.collection import Collection
from headtohead.finished_runs.embedding.embedder import Embedder
from headtohead.finished_runs.embedding.vector_index import build
from headtohead.finished_runs.finished_run import FinishedRun, open_run
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.finished_runs.probe.position_encodings import fresh_model, position_encodings
from headtohead.finished_runs.probe.small_images import TerminalImage
from headtohead.interpretability.head_statistics import head_statistics
from headtohead.interpretability.receptive_field import mixer_fields
from headtohead.records.record import RunRecord
from shape_hook import CALLED, annotated_modules

TINY = [
    *("model.d_model=16", "model.num_layers=2", "model.num_heads=2", "model/position=rotary", "tracking=none"),
    *("trainer.max_steps=1", "trainer.validate_every=1", "trainer.accelerator=cpu", "trainer.threads=1"),
]
CHANGED_TEXT = "augmentation=[token_dropping,swapping,span_masking]"
CHANGED_IMAGES = "augmentation=[resized_crop,horizontal_flip,rand_augment,colour_jitter,random_erasing,mixup]"
SPANS = [*DECODER, "data.packing=stream", "task.mixture=ul2"]
RUNS = {
    "decoder": [*DECODER, "data.tokenizer=char"],
    "several tokens": ["task=multi_token_prediction", *DECODER, "data.tokenizer=char"],
    "values of the first layer": [*DECODER, "data.tokenizer=char", "model/mixer=value_residual"],
    "recurrent": [*DECODER, "model/mixer=lstm", "model/position=none"],
    "masked": ENCODER,
    "diffused": ["task=masked_diffusion", *(word for word in ENCODER if not word.startswith("task="))],
    "spans": ["model=encoder_decoder", "task=span_corruption", *SPANS],
    "spans in one row": ["task=span_corruption_one_row", *SPANS],
    "next sentence": ["model=encoder_only", "task=masked_lm_next_sentence", "data.relation=next", *PAIRS[2:]],
    "classifier": [*CLASSIFIER, CHANGED_TEXT],
    "pairs": PAIRS,
    "prompts": ["task=multiple_choice", "task.shots=2", "data.tokenizer=byte", *CLASSIFIER[2:]],
    "tagger": TAGGER,
    "questions": QUESTIONS,
    "scores": SCORES,
    "retriever": ["model=encoder_only", "task=contrastive_pairs", "task.positive=entailment", *PAIRS[2:]],
    "retriever of targets": ["model=encoder_only", "task=contrastive_pairs", *TRANSLATOR[2:]],
    "translator": TRANSLATOR,
    "translator in one row": ["model=decoder_only", "task=seq2seq_one_row", *TRANSLATOR[2:]],
    "translator at once": ["model=encoder_only", "task=seq2seq_at_once", *TRANSLATOR[2:]],
    "images": [*IMAGES, CHANGED_IMAGES],
    "replaced tokens": ["task=replaced_token_detection", *(word for word in ENCODER if not word.startswith("task="))],
    "hidden patches": ["task=masked_image_modeling", *(word for word in IMAGES if not word.startswith("task="))],
    "compressed": ["model=decoder_only", "task=compression", "data=random_tokens", "data.num_train=64"],
}
WITHOUT_ROTARY = ("images", "hidden patches", "recurrent")
ELSEWHERE = ("components", "architectures", "generation", "diagnostics.laws")
"""Modules whose own tests lie in folders that are always hooked."""


def trained(name: str, output: Path) -> RunRecord:
    tiny = [override for override in TINY if name not in WITHOUT_ROTARY or "position" not in override]
    return h2h.train(h2h.compose("train", [*RUNS[name], *tiny, f"output_dir={output}"]))


def use(run: LoadedRun) -> None:
    """Do with a run of a language what can be done with one that has ended."""
    assert run.record.path is not None and run.attention("the old teacher")
    result = build(Embedder(run), Collection(("a", "b"), ("the old teacher", "a song"))).search(run.embed("a song"), 1)
    assert result[0].documents.tolist() == [1]
    assert h2h.evaluate(run.record.path, stride=4).points


def see_without_attention(run: FinishedRun) -> None:
    inputs = run.task.view(run.data.split("test").batch(np.arange(2)), seed=0, epoch=0).inputs()
    assert head_statistics(mixer_fields(run.model, inputs))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*deprecated by PEP 585")  # the hints of rich
@pytest.mark.shapes
def test_every_module_that_declares_shapes_is_called_under_the_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    runs = {name: trained(name, tmp_path) for name in RUNS}
    use(h2h.load_run(runs["decoder"].path or ""))
    see_without_attention(open_run(runs["recurrent"].path or ""))
    assert position_encodings(fresh_model(runs["decoder"].config), 8)
    assert "attention" in findings([*DECODER, *TINY[:3]], "attention")
    Console(file=StringIO()).print(TerminalImage(torch.rand(3, 8, 8)))
    tokens = torch.zeros(1, 4, dtype=torch.long)
    assert PlainGpt(width=8, num_layers=1, num_heads=2, vocab_size=4, max_length=4)(tokens, tokens).ndim == 0
    expected = {name for name in annotated_modules() if not name.removeprefix("headtohead.").startswith(ELSEWHERE)}
    assert expected - {module for module, _ in CALLED} == set()
