"""Images of the user's own, and what is said of those that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.sources.image_folder import ImageFolder
from headtohead.errors import UsageError
from headtohead.tasks.classification import ImageClassification
from headtohead.tasks.masked_image import MaskedImageModelling


def written(folder: Path, *, number: int = 20, brightness: int = 0, mode: str = "RGB", ending: str = "png") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        colour = (brightness, 2 * index, 0)
        image = Image.new("RGB", (12, 8), colour)
        image.convert(mode).save(folder / f"{index}.{ending}")


def animals(root: Path, **chosen: Any) -> Path:
    written(root / "cat", brightness=0, **chosen)
    written(root / "dog", brightness=255, **chosen)
    return root


def refusal(source: Any) -> str:
    with pytest.raises(DataError) as refused:
        source().prepare()
    return str(refused.value)


def test_folders_are_classes_and_every_split_has_its_share_of_each(tmp_path: Path) -> None:
    source = from_fields(ImageFolder, path=str(animals(tmp_path)), image_size=4, validation_share=0.2, test_share=0.1)
    spec = source.spec()
    assert spec.class_names == ("cat", "dog") and spec.class_shares == (0.5, 0.5) and spec.image_shape == (3, 4, 4)
    for name, each in zip(SPLIT_NAMES, (14, 4, 2), strict=True):
        batch = source.split(name).batch(np.arange(2 * each))
        assert batch.targets is not None and batch.targets.bincount().tolist() == [each, each]


def test_pixels_are_those_of_the_image_from_minus_one_to_one(tmp_path: Path) -> None:
    source = from_fields(ImageFolder, path=str(animals(tmp_path)), image_size=4)
    split = source.split("train")
    batch = split.batch(np.arange(len(split)))
    assert batch.images is not None and batch.targets is not None
    red, green, blue = batch.images.unbind(1)
    assert ((red == 1).flatten(1).all(1) == (batch.targets == 1)).all() and (blue == -1).all()
    greens = {round(float((value + 1) * 255 / 2)) for value in green.unique()}
    assert greens <= {2 * index for index in range(20)} and len(greens) > 10


def test_images_are_scaled_and_cut_in_the_middle(tmp_path: Path) -> None:
    stripes = np.zeros((4, 12, 3), dtype=np.uint8)
    stripes[:, 4:8] = 255
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(20):
            Image.fromarray(stripes).save(tmp_path / name / f"{number}.png")
    batch = from_fields(ImageFolder, path=str(tmp_path), image_size=4).split("train").batch(np.arange(3))
    assert batch.images is not None and bool((batch.images == 1).all())


@pytest.mark.parametrize(("mode", "ending"), [("L", "png"), ("RGBA", "png"), ("P", "gif"), ("RGB", "jpg")])
def test_colours_are_as_requested_whatever_the_file_holds(tmp_path: Path, mode: str, ending: str) -> None:
    root = animals(tmp_path, mode=mode, ending=ending)
    assert from_fields(ImageFolder, path=str(root), colours="grey", image_size=4).spec().image_shape == (1, 4, 4)
    batch = from_fields(ImageFolder, path=str(root), image_size=4).split("train").batch(np.arange(2))
    assert batch.images is not None and batch.images.shape == (2, 3, 4, 4)


def test_splits_may_have_folders_of_their_own(tmp_path: Path) -> None:
    animals(tmp_path / "train", number=10)
    written(tmp_path / "test" / "dog", number=3)
    source = from_fields(ImageFolder, path=str(tmp_path), image_size=4)
    assert [len(source.split(name)) for name in SPLIT_NAMES] == [18, 2, 3]
    batch = source.split("test").batch(np.arange(3))
    assert batch.targets is not None and batch.targets.tolist() == [1, 1, 1]


def test_changed_image_is_read_anew(tmp_path: Path) -> None:
    first = from_fields(ImageFolder, path=str(animals(tmp_path)), image_size=4).spec().data_hash
    assert from_fields(ImageFolder, path=str(tmp_path), image_size=4).spec().data_hash == first
    Image.new("RGB", (3, 3), "white").save(tmp_path / "cat" / "0.png")
    assert from_fields(ImageFolder, path=str(tmp_path), image_size=4).spec().data_hash != first


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n and no more"])
def test_unreadable_image_is_named(tmp_path: Path, content: bytes) -> None:
    path = animals(tmp_path) / "dog" / "7.png"
    path.write_bytes(content)
    message = refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))
    assert message.startswith(f"{path} is not a whole image") and message.endswith("replace it, or remove it.")


@pytest.mark.parametrize("broken", [2, 5, 8])
def test_all_unreadable_images_are_counted_and_the_first_named(tmp_path: Path, broken: int) -> None:
    animals(tmp_path / "train")
    paths = [animals(tmp_path / "test") / "dog" / "3.png", *sorted((tmp_path / "train" / "cat").iterdir())]
    for path in paths[:broken]:
        path.write_bytes(b"no image")
    message = refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))
    assert message.startswith(f"{broken} of 80 images cannot be read, ") and "\n" not in message
    assert sum(str(path) in message for path in paths[:broken]) == min(broken, 5)
    assert (" and 3 more: replace them" in message) == (broken == 8)


def test_image_cut_short_is_named(tmp_path: Path) -> None:
    path = animals(tmp_path) / "cat" / "3.png"
    Image.fromarray(np.random.default_rng(0).integers(255, size=(50, 50, 3), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:-2000])
    assert f"{path} is not a whole image" in refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))


def test_class_that_training_does_not_have_is_named(tmp_path: Path) -> None:
    animals(tmp_path / "train")
    written(tmp_path / "test" / "bird")
    message = refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))
    assert message.startswith(f"{tmp_path / 'test' / 'bird'} is a class that the train images do not have (cat, dog)")


def test_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    message = refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))
    assert f"data.path={tmp_path} must hold a folder of images" in message and "none is there" in message


def test_images_beside_classes_are_refused_and_hidden_folders_are_none(tmp_path: Path) -> None:
    written(tmp_path, number=30)
    written(tmp_path / ".thumbs")
    assert from_fields(ImageFolder, path=str(tmp_path)).spec().class_names == ("image",)
    written(tmp_path / "cat")
    message = refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))
    assert "holds 30 images beside the folders cat, which are classes: move them" in message


@pytest.mark.parametrize("folders", [["."], ["cat"], ["train/cat", "test/cat"], ["train", "test"]])
def test_images_of_one_kind_are_read_and_not_told_apart(tmp_path: Path, folders: list[str]) -> None:
    for folder in folders:
        written(tmp_path / folder, number=30)
    source = from_fields(ImageFolder, path=str(tmp_path))
    spec = source.spec()
    assert spec.num_classes == 1 and spec.class_names == ("cat" if "cat" in folders[0] else "image",)
    assert sum(len(source.split(name)) for name in SPLIT_NAMES) == 30 * len(folders)
    MaskedImageModelling(patch_size=4).bind(spec)
    with pytest.raises(UsageError, match=r"the data has 1 class .* or choose task=masked_image_modeling"):
        ImageClassification().bind(spec)


def test_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.csv"
    path.write_text("cat\n", encoding="utf-8")
    assert f"data.path={path} is a file: give a folder" in refusal(lambda: from_fields(ImageFolder, path=str(path)))


def test_too_few_images_for_three_splits_are_refused(tmp_path: Path) -> None:
    animals(tmp_path, number=2)
    assert "leaves the validation split empty" in refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))


def test_split_folder_without_images_is_named(tmp_path: Path) -> None:
    animals(tmp_path / "train")
    (tmp_path / "validation").mkdir()
    assert f"{tmp_path / 'validation'} has no images" in refusal(lambda: from_fields(ImageFolder, path=str(tmp_path)))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"image_size": 0}, "data.image_size=0 must be at least 1"),
        ({"colours": "sepia"}, "data.colours=sepia is unknown: choose one of rgb, grey"),
        ({"path": None}, "data.path is missing: give a folder with a folder of images per class"),
        ({"path": "/no/such/folder"}, "data.path=/no/such/folder does not exist"),
    ],
)
def test_senseless_choices_are_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_fields(ImageFolder, **chosen).prepare()
