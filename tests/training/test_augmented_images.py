"""Runs on augmented images: divided, interrupted or not, they see the same images."""

from __future__ import annotations

from pathlib import Path

import pytest

import headtohead as h2h

DIGITS = [
    "data=digits", "data.num_train=96", "data.batch_size=16", "task=image_classification", "model=mlp",
    "trainer.accelerator=cpu", "trainer.threads=1", "tracking=none", "probe=none", "trainer.num_samples=0",
    "trainer.progress_bar=false", "schedule=constant", "trainer.validate_every=4", "trainer.log_every=1",
]  # fmt: skip
SEVERAL = [
    "augmentation=[random_crop,rand_augment,random_erasing,mixup,cutmix]", "augmentation.steps.random_crop.margin=1",
]  # fmt: skip


@pytest.mark.slow
def test_batch_in_parts_is_augmented_and_mixed_as_the_whole(tmp_path: Path) -> None:
    base = [*DIGITS, "trainer.max_steps=6", f"output_dir={tmp_path}", "trainer.validation_batches=1"]
    whole, parts, plain = (
        h2h.train(h2h.compose("train", [*base, *more]))
        for more in (SEVERAL, [*SEVERAL, "trainer.accumulate=4"], ["trainer.accumulate=4"])
    )
    assert parts.metrics["test"]["loss"] == pytest.approx(whole.metrics["test"]["loss"], rel=1e-5)
    assert plain.metrics["test"]["loss"] != pytest.approx(whole.metrics["test"]["loss"], rel=1e-4)


@pytest.mark.slow
def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    base = [*DIGITS, *SEVERAL, f"output_dir={tmp_path}"]
    whole = h2h.train(h2h.compose("train", [*base, "trainer.max_steps=12"]))
    half = h2h.train(h2h.compose("train", [*base, "trainer.max_steps=8", "trainer.keep_checkpoints=all"]))
    rest = h2h.train(h2h.compose("train", [f"resume_from={half.path}", "trainer.max_steps=12"]))
    assert rest.metrics["test"] == whole.metrics["test"]


@pytest.mark.slow
@pytest.mark.process
def test_loader_processes_change_nothing(tmp_path: Path) -> None:
    base = [*DIGITS, *SEVERAL, f"output_dir={tmp_path}", "trainer.max_steps=8"]
    alone, helped = (h2h.train(h2h.compose("train", [*base, f"trainer.num_workers={number}"])) for number in (0, 2))
    assert alone.metrics["test"] == helped.metrics["test"]
