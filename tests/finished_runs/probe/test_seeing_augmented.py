"""Augmented rows are shown beside the original ones, and only where training reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from headtohead.config.build import build_augmentation, build_task
from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.augmentation.image_operations import PixelScale
from headtohead.finished_runs.probe.data_page import data_as_dict, data_content, show_data
from headtohead.finished_runs.probe.data_seen import ProbedData, see
from headtohead.finished_runs.probe.probe_files import write_data
from headtohead.training.loop.seeds import seeds_of

CHOICES = ["model=cnn", "task=image_classification", "data=digits", "data.num_train=60", "tracking=none"]
CHANGES = ["augmentation=[horizontal_flip,mixup]", "augmentation.steps.mixup.alpha=1.0"]


def seen_with(*overrides: str, split: str = "train") -> tuple[ProbedData, dict[str, object]]:
    config = compose_checked("train", [*CHOICES, *overrides])
    data = build_data(config)
    made = see(
        data,
        build_task(config, data.spec()),
        3,
        split=split,
        augmentation=build_augmentation(config, data),  # type: ignore[arg-type]
    )
    return made, config


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.getbasetemp() / "seen_cache"))


@pytest.mark.slow
def test_pictures_are_those_that_training_reads_in_its_first_epoch(tmp_path: Path) -> None:
    seen, config = seen_with(*CHANGES)
    data = build_data(config)
    rows = np.array([sample.row for sample in seen.samples])
    batch = data.split("train").batch(rows)
    after = build_augmentation(config, data).on_device(batch, seed=seeds_of(3).data_order, epoch=0)
    scale = PixelScale.of(data.spec())
    for images, result in ((batch.images, [sample.original for sample in seen.samples]), (after.images, seen.samples)):
        assert images is not None
        assert torch.equal(scale.as_shown(images), torch.stack([sample.image for sample in result]))  # type: ignore[union-attr, misc]
    assert seen.augmented_by == ("horizontal_flip", "mixup")
    assert any(" + " in (sample.label or "") for sample in seen.samples)
    assert all(sample.original is not None and " + " not in (sample.original.label or "") for sample in seen.samples)
    files = write_data(seen, config, tmp_path)
    assert [file.name for file in files] == ["splits.png", "images.png", "data.html"]
    sample = data_content(seen, config)["samples"][0]
    assert (
        sample["image"] != sample["original"]["image"]
        and "changed by horizontal_flip, mixup" in data_content(seen, config)["heading"]
    )
    assert data_as_dict(seen)["augmented_by"] == ["horizontal_flip", "mixup"]


@pytest.mark.parametrize("overrides", [[], CHANGES])
def test_rows_for_evaluation_are_shown_as_they_are(overrides: list[str]) -> None:
    seen, _ = seen_with(*overrides, split="validation")
    plain, _ = seen_with(split="validation")
    assert all(sample.original is None for sample in seen.samples) and seen.augmented_by == ()
    for one, other in zip(seen.samples, plain.samples, strict=True):
        assert one.image is not None and other.image is not None and torch.equal(one.image, other.image)


def test_images_of_a_terminal_have_their_colours_or_shades() -> None:
    seen, _ = seen_with()
    wide = Console(width=100, force_terminal=True, color_system="truecolor")
    with wide.capture() as captured:
        wide.print(show_data(seen))
    assert "▀" in captured.get() and "38;2;" in captured.get()
    bare = Console(width=100, color_system=None)
    with bare.capture() as captured:
        bare.print(show_data(seen))
    assert "▀" not in captured.get() and "█" in captured.get()


@pytest.mark.slow
def test_stream_is_seen_as_training_reads_it(tmp_path: Path) -> None:
    from published_sets.images import SETS

    SETS["imagenet"](tmp_path)
    chosen = ["data=imagenet", f"data.folder={tmp_path}", "data.image_size=16", "data.batch_size=8", "data.lanes=2"]
    config = compose_checked("train", ["model=cnn", "task=image_classification", *chosen])
    data = build_data(config)
    seen = see(data, build_task(config, data.spec()), 0)
    assert len(seen.samples) == 8 and all(sample.image is not None for sample in seen.samples)
    assert [split.rows for split in seen.splits] == [108, 12, 20]
