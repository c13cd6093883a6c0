"""Pictures of 16 bits a channel are read as those of 8 bits that show the same, wherever a picture is read."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headtohead.data.batches.image_decoding import Colours, fitted_image, pixels_of
from headtohead.data.data_source import DataError

RAMP = np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8)


def saved(pixels: np.ndarray, kind: str) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, format=kind)
    return file.getvalue()


@pytest.mark.parametrize("colours", ["rgb", "grey"])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_more_bits_show_the_same(kind: str, colours: Colours) -> None:
    plain = pixels_of(saved(RAMP, "PNG"), 8, colours, "it")
    assert len(set(plain.tolist())) == 64
    assert np.array_equal(pixels_of(saved(RAMP.astype(np.uint16) * 257, kind), 8, colours, "it"), plain)


def test_pixels_without_a_range_are_refused() -> None:
    for kind in (np.float32, np.int32):
        with pytest.raises(DataError, match=r"^a\.tif has pixels of 32 bits, .*: save it with 8 or 16$"):
            pixels_of(saved(RAMP.astype(kind), "TIFF"), 8, "grey", "a.tif")


@pytest.mark.parametrize("shape", [(8, 8), (8, 20), (30, 6)])
def test_a_picture_of_any_shape_is_cut_in_its_middle(shape: tuple[int, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "a.png").write_bytes(saved(rng.integers(0, 255, (*shape, 3), dtype=np.uint8), "PNG"))
    with Image.open(tmp_path / "a.png") as image:
        alone = np.asarray(fitted_image(image, (8, 8), "rgb")).transpose(2, 0, 1).reshape(-1)
    assert np.array_equal(pixels_of(tmp_path / "a.png", 8, "rgb", "a"), alone)
