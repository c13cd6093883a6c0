"""Tensors that a notebook hands over become the data that they are, or are refused in a sentence."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset, DatasetDict
from PIL import Image

from headtohead.api.own_data import overrides_for
from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.errors import UsageError

LABELS = torch.arange(6) % 2
GREY = torch.linspace(0, 1, 6 * 64).reshape(6, 8, 8)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))


def pixels(images: Any, labels: Any = LABELS) -> np.ndarray:
    """Return the images as runs read them."""
    from pyarrow import parquet

    fields = dict(word.partition("=")[::2] for word in overrides_for((images, labels)))
    (file,) = Path(fields["data.folder"]).glob("*.parquet")
    rows = parquet.read_table(file)["image"].to_pylist()
    return np.stack([np.asarray(Image.open(io.BytesIO(row["bytes"]))) for row in rows])


IMAGES = {
    "shares": GREY,
    "shares with a gradient": GREY.clone().requires_grad_(),
    "64 bits": GREY.double(),
    "numbers of numpy": GREY.numpy(),
    "bytes": (GREY * 255).round().byte(),
    "whole numbers": (GREY * 255).round().long(),
    "a channel in front": GREY[:, None],
    "a channel behind": GREY[..., None],
    "three channels in front": GREY[:, None].expand(-1, 3, -1, -1),
    "three channels behind": GREY[..., None].expand(-1, -1, -1, 3),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_keep_their_brightness_however_it_is_written(name: str) -> None:
    read = pixels(IMAGES[name])
    whole = (GREY * 255).round().byte().numpy()
    assert (read == (whole if read.ndim == 3 else whole[..., None])).all()


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_images_of_few_bits_are_read_to_their_precision(precision: torch.dtype) -> None:
    assert np.abs(pixels(GREY.to(precision)).astype(int) - pixels(GREY).astype(int)).max() <= 1


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16])
def test_black_and_white_is_black_and_white(kind: torch.dtype) -> None:
    assert set(np.unique(pixels((GREY > 0.5).to(kind)))) == {0, 255}


def test_whole_numbers_on_a_scale_of_their_own_are_said_to_be_dark(caplog: pytest.LogCaptureFixture) -> None:
    read = pixels((GREY * 16).round().byte())
    assert read.max() <= 16 and f"whole numbers to {read.max()} of 255, which are dark" in caplog.text
    caplog.clear()
    assert pixels((GREY * 255).round().byte()).max() > 64 and not caplog.text


def test_images_of_equal_bytes_and_other_shapes_are_not_one_set() -> None:
    flat = torch.arange(4 * 64, dtype=torch.uint8)
    assert pixels(flat.reshape(4, 8, 8), LABELS[:4]).shape == (4, 8, 8)
    assert pixels(flat.reshape(16, 4, 4), torch.arange(16) % 2).shape == (16, 4, 4)
    assert overrides_for((GREY, LABELS)) != overrides_for((GREY, LABELS.bool()))


REFUSED = {
    "normalised images": ((GREY * 4 - 2, LABELS), "from -2 to 2"),
    "shares of 255": ((GREY * 255, LABELS), "from 0 to 255"),
    "negative images": ((torch.full((6, 8, 8), -1), LABELS), "from -1 to -1"),
    "more than bytes": ((torch.full((6, 8, 8), 256), LABELS), "from 256 to 256"),
    "no numbers": ((GREY * torch.nan, LABELS), "from nan to nan"),
    "two channels": ((GREY[:, None].expand(-1, 2, -1, -1), LABELS), "one channel or of three"),
    "four channels": ((GREY[..., None].expand(-1, -1, -1, 4), LABELS), "one channel or of three"),
    "wide images": ((GREY[:, :4], LABELS), "give square ones"),
    "no image": ((GREY[:0], LABELS[:0]), "at least one"),
    "scores for images": ((GREY, LABELS + 0.5), "labels with fractions"),
    "scores for tokens": ((torch.zeros(6, 8).long(), LABELS + 0.5), "labels with fractions"),
    "labels of several numbers": ((GREY, torch.zeros(6, 2)), "one class for each row"),
    "labels that lack": ((GREY, LABELS[:4]), "6 rows and 4 labels"),
    "no row": (torch.zeros(0, 8).long(), "at least one row"),
    "no token": (torch.zeros(8, 0).long(), "at least one token"),
    "shares for tokens": (GREY[0], "give token ids"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_neither_is_refused_in_a_sentence(name: str) -> None:
    data, sentence = REFUSED[name]
    with pytest.raises(UsageError, match=sentence):
        overrides_for(data)


def test_whole_numbers_with_a_point_are_classes() -> None:
    assert overrides_for((GREY, LABELS.float())) == overrides_for((GREY, LABELS))


@pytest.mark.parametrize("form", ["a DatasetDict", "frames"])
def test_splits_of_a_notebook_stay_apart(form: str) -> None:
    frame = pd.DataFrame({"review": [f"film number {row} of many" for row in range(40)], "good": ["yes", "no"] * 20})
    parts = {"train": frame[:30], "val": frame[30:35].reset_index(drop=True), "test": frame[35:].reset_index(drop=True)}
    data = parts if form == "frames" else DatasetDict({name: Dataset.from_pandas(part) for name, part in parts.items()})
    source = build_data(compose_checked("train", overrides_for(data)))
    assert [len(source.split(split)) for split in SPLIT_NAMES] == [30, 5, 5]
    assert overrides_for(data) == overrides_for(data)
    with pytest.raises(UsageError, match="data has the splits a, b: give train"):
        overrides_for({"a": frame, "b": frame})
