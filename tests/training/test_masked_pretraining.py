"""A vision transformer learns from images without labels, and then the classes of a few."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import headtohead as h2h
from headtohead.records.record import RunRecord
from headtohead.training.checkpoints import load_best

SMALL = (
    "model=vision_transformer", "data=digits", "model.d_model=16", "model.num_heads=2", "model.num_layers=2",
    "data.batch_size=16", "trainer.max_steps=4", "trainer.validate_every=2", "trainer.accelerator=cpu",
    "tracking=none", "probe=none",
)  # fmt: skip


def trained(folder: Path, *overrides: str) -> RunRecord:
    record = h2h.train(h2h.compose("train", [*SMALL, *overrides, f"output_dir={folder}"]))
    assert record.status == "finished", record.reason
    return record


@pytest.mark.slow
def test_a_masked_autoencoder_trains_and_its_encoder_starts_a_classifier(tmp_path: Path) -> None:
    first = trained(tmp_path, "task=masked_image_modeling", "name=pretrained")
    assert set(first.metrics["test"]) == {"loss"} <= set(first.baselines)
    assert first.path is not None
    second = trained(
        tmp_path, "task=image_classification", "name=finetuned", f"init_from=run:{first.path}", "optimizer.lr=1e-12"
    )
    assert second.path is not None
    before, after = (load_best(run.path)["model"] for run in (first, second) if run.path is not None)
    body = [name for name in after if not name.startswith("head.")]
    assert body == [name for name in before if not name.startswith("head.")]
    for name in body:
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=1e-8)


@pytest.mark.slow
def test_only_the_decoder_learns_where_the_body_is_frozen(tmp_path: Path) -> None:
    first = trained(tmp_path, "task=masked_image_modeling", "name=pretrained")
    again = trained(
        tmp_path, "task=masked_image_modeling", "name=frozen", f"init_from=run:{first.path}", "finetuning.freeze=body"
    )
    assert first.path is not None and again.path is not None
    before, after = load_best(first.path)["model"], load_best(again.path)["model"]
    moved = {name.split(".")[0] for name in after if not torch.equal(after[name], before[name])}
    assert moved == {"head"}
