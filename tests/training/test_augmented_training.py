"""Augmentation changes what is trained on, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import headtohead as h2h
from headtohead.config.build import build_augmentation, build_task
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import EpochOrder
from headtohead.training.loop.data_module import EvaluationBatches, StepBatch, TrainingBatches

REVIEWS = [
    "data=sentence_grammar", "data.num_train=96", "data.num_validation=16", "data.num_test=16", "data.batch_size=16",
    "data.vocab_size=280", "task=classification", "model=encoder_only", "model/size=tiny", "model.d_model=16",
    "model.num_heads=2", "model.num_layers=1", "trainer.accelerator=cpu", "tracking=none", "probe=none",
    "trainer.num_samples=0", "trainer.progress_bar=false",
]  # fmt: skip
SEVERAL = "augmentation=[token_dropping,swapping,bpe_dropout]"


def steps_of(*overrides: str) -> TrainingBatches:
    config = h2h.compose("train", [*REVIEWS, *overrides])
    data = build_data(config)
    split = data.split("train")
    return TrainingBatches(
        split,
        build_task(config, data.spec()),
        EpochOrder(split, batch_size=16, seed=5),
        augmentation=build_augmentation(config, data),
        seed=5,
        rank=0,
        world_size=1,
        accumulate=1,
    )


def rows_of(batch: StepBatch) -> Batch:
    (part,) = batch.parts
    return part


def same(first: StepBatch, second: StepBatch) -> bool:
    one, other = rows_of(first), rows_of(second)
    return one.tokens.shape == other.tokens.shape and torch.equal(one.tokens, other.tokens)


@pytest.mark.process
def test_a_step_reads_the_same_rows_whenever_and_wherever_it_is_made() -> None:
    steps, again = steps_of(SEVERAL), steps_of(SEVERAL)
    in_order = [steps[step] for step in range(8)]
    assert all(same(in_order[step], again[step]) for step in (7, 3, 0)), "as after a resume"
    loader = DataLoader(again, batch_size=None, sampler=[0, 1, 2, 3], num_workers=2, multiprocessing_context="fork")
    assert all(same(one, other) for one, other in zip(in_order, loader, strict=False))


@pytest.mark.slow
def test_training_rows_are_changed_anew_in_every_epoch_and_others_never() -> None:
    plain, steps = steps_of(), steps_of(SEVERAL)
    assert not same(plain[0], steps[0]) and torch.equal(rows_of(plain[0]).targets, rows_of(steps[0]).targets)

    def first_row(step: int) -> list[int]:
        """Return row 0 of the epoch that begins at this step."""
        batches = [rows_of(steps[position]) for position in range(step, step + 6)]
        return next(b.tokens[b.rows.tolist().index(0)].tolist() for b in batches if 0 in b.rows.tolist())

    assert len({tuple(filter(None, first_row(step))) for step in (0, 6, 12)}) == 3
    config = h2h.compose("train", [*REVIEWS, SEVERAL])
    data = build_data(config)
    task = build_task(config, data.spec())
    seen = EvaluationBatches(data.split("test"), task, batch_size=16, rank=0, world_size=1)[0]
    assert torch.equal(rows_of(seen).tokens, data.split("test").batch(np.arange(16)).tokens)


@pytest.mark.slow
def test_a_run_is_named_and_recorded_with_its_augmentations() -> None:
    config = h2h.compose("train", [*REVIEWS, SEVERAL])
    assert config["choices"]["augmentation"] == "[token_dropping,swapping,bpe_dropout]"
    assert list(config["augmentation"]["steps"]) == ["token_dropping", "swapping", "bpe_dropout"]
    assert "token_dropping" in config["name"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["augmentation=[token_dropping,swaping]"], r"augmentation=swaping does not exist: did you mean swapping\?"),
        (["augmentation=synonyms"], r"synonyms needs a path: give augmentation\.steps\.synonyms\.path"),
        (
            ["augmentation=swapping", "augmentation.steps.swapping.rat=1"],
            r"did you mean .*swapping\.rate",
        ),
        (["augmentation=horizontal_flip"], "augmentation=horizontal_flip cannot be used with data=sentence_grammar: "),
    ],
)
def test_senseless_augmentation_is_refused_before_anything_is_built(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        h2h.compose("train", [*REVIEWS, *overrides])


@pytest.mark.slow
def test_validation_and_test_are_the_same_with_and_without(tmp_path: Path) -> None:
    untrained = [*REVIEWS, "trainer.max_steps=0", f"output_dir={tmp_path}"]
    plain, augmented = (h2h.train(h2h.compose("train", [*untrained, *more])) for more in ([], [SEVERAL]))
    assert plain.metrics["test"] == augmented.metrics["test"] != {}


CORPUS = [
    "data=grammar_lm", "data.num_train=200", "data.num_validation=10", "data.num_test=10", "data.batch_size=8",
    "data.context_length=12", "data.tokenizer=char", "model.d_model=16", "model.num_layers=1",
    "trainer.accelerator=cpu", "tracking=none", "probe=none", "trainer.num_samples=0", "trainer.progress_bar=false",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("task", ["task=causal_lm", "task=masked_lm model=encoder_only"])
def test_a_corpus_with_noise_trains_and_is_judged_without_it(tmp_path: Path, task: str) -> None:
    base = [*CORPUS, *task.split(), f"output_dir={tmp_path}", "trainer.max_steps=3"]
    noise = "augmentation=[token_replacement,span_masking,token_dropping]"
    plain, noised = (h2h.train(h2h.compose("train", [*base, *more])) for more in ([], [noise]))
    assert noised.status == "finished" and plain.metrics["test"] != noised.metrics["test"]
    untrained = [h2h.compose("train", [*base, *more, "trainer.max_steps=0"]) for more in ([], [noise])]
    assert h2h.train(untrained[0]).metrics["test"] == h2h.train(untrained[1]).metrics["test"]


@pytest.mark.parametrize("of", [[*REVIEWS, SEVERAL], [*CORPUS, "augmentation=[token_dropping,token_replacement]"]])
@pytest.mark.slow
def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(tmp_path: Path, of: list[str]) -> None:
    base = [*of, f"output_dir={tmp_path}", "schedule=constant", "trainer.validate_every=4"]
    whole = h2h.train(h2h.compose("train", [*base, "trainer.max_steps=12"]))
    half = h2h.train(h2h.compose("train", [*base, "trainer.max_steps=8", "trainer.keep_checkpoints=all"]))
    rest = h2h.train(h2h.compose("train", [f"resume_from={half.path}", "trainer.max_steps=12"]))
    assert rest.metrics["test"] == whole.metrics["test"] and rest.progress.tokens == whole.progress.tokens
