"""Published sets of pictures, from the bytes of a Parquet file to the numbers that a model reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import headtohead.data.sources.hub.hub_images as hub_images
from from_fields import from_fields
from headtohead.config.compose.composition import compose
from headtohead.config.origins.from_weights import build_data
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.sources.hub.hub_images import HubImages
from hub_server import hub_of
from published_sets.images import CIFAR100_COARSE, SETS, picture, write_pictures

REVISION = "0b2714987fa478483af9968de7c934580d0bb9a2"


def two_kinds(folder: Path, **chosen: Any) -> Path:
    provided: dict[str, Any] = {
        "image": "image",
        "labels": {"label": ("cat", "dog")},
        "shape": (8, 8, 3),
        "rows": {"train": 40, "test": 12},
        "subset": None,
        "inside": "data",
        "licence": "mit",
    }
    write_pictures(folder, **{**provided, **chosen})
    return folder


def refusal(make: Callable[[], HubImages]) -> str:
    with pytest.raises(DataError) as refused:
        make().prepare()
    return str(refused.value)


def test_pixels_are_those_of_the_files_with_mean_zero_and_deviation_one(tmp_path: Path) -> None:
    source = from_fields(HubImages, folder=str(two_kinds(tmp_path)), image_size=8, validation_split="share")
    spec, train = source.spec(), source.split("train")
    indices = np.sort(np.concatenate([train.batch(np.arange(len(train))).rows.numpy()]))
    assert len(indices) == 36 and [len(source.split(name)) for name in SPLIT_NAMES] == [36, 4, 12]
    files = np.stack([picture((8, 8, 3), index % 2, index + 10_000 * len("test"), "PNG")[1] for index in range(12)])
    test = source.split("test").batch(np.arange(12))
    mean, deviation = np.array(spec.image_mean), np.array(spec.image_deviation)
    expected = ((files / 255 - mean) / deviation).transpose(0, 3, 1, 2)
    assert test.images is not None and np.allclose(test.images.numpy(), expected, atol=1e-5)
    assert test.targets is not None and test.targets.tolist() == [0, 1] * 6
    read = train.batch(np.arange(36)).images
    assert read is not None
    assert np.allclose(read.mean((0, 2, 3)), 0, atol=1e-5)
    assert np.allclose(read.std((0, 2, 3), correction=0), 1, atol=1e-5)


def test_shares_of_the_train_images_are_alike_in_classes_and_apart(tmp_path: Path) -> None:
    source = from_fields(HubImages, folder=str(two_kinds(tmp_path)), image_size=8, test_split="share", test_share=0.25)
    batches = [source.split(name).batch(np.arange(len(source.split(name)))) for name in SPLIT_NAMES]
    assert [batch.targets.bincount().tolist() for batch in batches if batch.targets is not None] == [
        [13, 13], [2, 2], [5, 5],
    ]  # fmt: skip
    seen = [image.numpy().tobytes() for batch in batches if batch.images is not None for image in batch.images]
    assert len(set(seen)) == 40


def test_pictures_of_any_size_are_scaled_and_cut_in_the_middle(tmp_path: Path) -> None:
    source = from_fields(
        HubImages, folder=str(two_kinds(tmp_path, shape=(20, 30, 3), form="JPEG", shards=3)), image_size=10
    )
    images = source.split("test").batch(np.arange(12)).images
    assert images is not None and images.shape == (12, 3, 10, 10)
    grey = from_fields(HubImages, folder=str(tmp_path), image_size=10, colours="grey")
    assert grey.spec().image_shape == (1, 10, 10)


@pytest.mark.slow
def test_fine_and_coarse_labels_are_chosen_by_a_field(tmp_path: Path) -> None:
    SETS["cifar100"](tmp_path)
    coarse, fine = (
        build_data(compose("train", ["data=cifar100", f"data.folder={tmp_path}", *more]))
        for more in (["data.label_column=coarse_label"], [])
    )
    assert coarse.spec().class_names == tuple(CIFAR100_COARSE.split()) and fine.spec().num_classes == 100


def test_names_of_classes_follow_the_card_though_the_pictures_stay(tmp_path: Path) -> None:
    card = two_kinds(tmp_path) / "README.md"
    assert from_fields(HubImages, folder=str(tmp_path), image_size=8).spec().class_names == ("cat", "dog")
    card.write_text(card.read_text(encoding="utf-8").replace(": cat\n", ": wolf\n"), encoding="utf-8")
    assert from_fields(HubImages, folder=str(tmp_path), image_size=8).spec().class_names == ("wolf", "dog")


def test_pixels_are_tokens_line_by_line(tmp_path: Path) -> None:
    SETS["cifar10"](tmp_path)
    source = build_data(compose("train", ["data=cifar10_pixels", f"data.folder={tmp_path}"]))
    spec, batch = source.spec(), source.split("test").batch(np.array([3, 0]))
    assert (spec.kind, spec.vocab_size, spec.max_length, spec.num_classes) == ("labelled_text", 261, 1024, 10)
    assert batch.tokens is not None and batch.targets is not None and batch.targets.tolist() == [3, 0]
    for index, tokens in zip((3, 0), batch.tokens, strict=True):
        red, green, blue = picture((32, 32, 3), index, index + 10_000 * len("test"), "PNG")[1].astype(float).T
        grey = (0.299 * red + 0.587 * green + 0.114 * blue).T.reshape(-1)
        assert np.abs(tokens.numpy() - 5 - grey).max() <= 1
    assert source.decode([0, 5, 260]) == "<pad> 0 255"


def test_set_comes_over_the_network_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SETS["cifar10"](tmp_path / "set")
    overrides = ["data=cifar10", "task=image_classification", "model=cnn"]
    name, cache = "uoft-cs/cifar10", tmp_path / "hub"
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    with hub_of({name: tmp_path / "set"}, monkeypatch, cache, commits={name: REVISION}) as hub:
        first = build_data(compose("train", overrides)).spec()
        options = len(hub.requested)
        again = build_data(compose("train", overrides)).spec()
        assert options and len(hub.requested) == options
    assert first == again and first.class_names[:2] == ("airplane", "automobile")


def test_hidden_labels_are_reported(tmp_path: Path) -> None:
    two_kinds(tmp_path)
    file = tmp_path / "data" / "test-00000-of-00001.parquet"
    table = parquet.read_table(file)
    hidden = table.set_column(1, table.schema.field("label"), pa.array([-1] * len(table), pa.int64()))
    parquet.write_table(hidden, file)
    message = refusal(lambda: from_fields(HubImages, folder=str(tmp_path), image_size=8))
    assert "the labels of its test split are not published" in message and "data.test_split=share" in message


def broken(table: pa.Table, row: int, content: bytes | None) -> pa.Table:
    pictures = table.column("image").to_pylist()
    pictures[row] = {"bytes": content, "path": "x.png"}
    return table.set_column(0, table.schema.field("image"), pa.array(pictures, table.schema.field("image").type))


@pytest.mark.parametrize(
    ("content", "expected"), [(b"no picture", "row 8 is not a whole image"), (None, "row 8 has no picture in it")]
)
def test_picture_that_cannot_be_read_is_named_with_its_row(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    file = two_kinds(tmp_path) / "data" / "train-00000-of-00001.parquet"
    parquet.write_table(broken(parquet.read_table(file), 7, content), file)
    assert expected in refusal(lambda: from_fields(HubImages, folder=str(tmp_path), image_size=8))


def test_changed_schema_is_reported(tmp_path: Path) -> None:
    folder = two_kinds(tmp_path)
    source = {"image_column": "image", "label_column": "label", "image_size": 8, "folder": str(folder)}
    file = folder / "data" / "test-00000-of-00001.parquet"
    parquet.write_table(parquet.read_table(file).rename_columns(["image", "kind"]), file)
    message = refusal(lambda: from_fields(HubImages, **source))
    assert f"{file} has no column 'label', which other files of the set have; it has image, kind" in message


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"label_column": "kind"}, "data.label_column=kind is not a column of .*, which has image, label"),
        ({"image_column": "label"}, "data.image_column=label of .* holds int64, not pictures: choose image"),
        ({"test_split": "dev"}, "has no split 'dev'"),
        ({"test_split": "train"}, "data.test_split=train is what data.train_split=train reads too.*=share or test"),
        ({"image_size": 0}, "data.image_size=0 must be at least 1"),
        ({"colours": "sepia"}, "data.colours=sepia is unknown"),
        ({"folder": "/no/such/folder"}, "/no/such/folder"),
    ],
)
def test_senseless_choices_are_refused(tmp_path: Path, chosen: dict[str, Any], expected: str) -> None:
    provided = {"folder": str(two_kinds(tmp_path)), "image_size": 8, **chosen}
    with pytest.raises(DataError, match=expected):
        from_fields(HubImages, **provided).prepare()


def test_several_columns_of_labels_are_requested_by_name(tmp_path: Path) -> None:
    two_kinds(tmp_path, labels={"kind": ("cat", "dog"), "size": ("small", "large")})
    message = refusal(lambda: from_fields(HubImages, folder=str(tmp_path), image_size=8))
    assert "has the columns kind, size, and which is the label is not plain: give data.label_column=NAME" in message


def test_too_little_room_is_reported_before_anything_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub_images.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    message = refusal(lambda: from_fields(HubImages, folder=str(two_kinds(tmp_path / "set")), image_size=8))
    assert "has 52 images, which at data.image_size=8 take" in message and "give a smaller data.image_size" in message


def test_failure_while_decoding_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(cache))
    file = two_kinds(tmp_path / "set") / "data" / "test-00000-of-00001.parquet"
    parquet.write_table(broken(parquet.read_table(file), 11, b"\x89PNG"), file)
    refusal(lambda: from_fields(HubImages, folder=str(tmp_path / "set"), image_size=8))
    assert not [path for path in (cache / "hub_images").rglob("*") if path.is_file()]
    assert not [path for path in cache.iterdir() if path.is_file()]


def test_number_of_threads_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_kinds(tmp_path / "set", rows={"train": 200, "test": 70})
    hashes = []
    for threads in ("1", "5"):
        monkeypatch.setenv("HEADTOHEAD_PROCESSES", threads)
        monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / threads))
        hashes.append(from_fields(HubImages, folder=str(tmp_path / "set"), image_size=8).spec().data_hash)
    assert hashes[0] == hashes[1]


@pytest.mark.slow
def test_training_runs_from_the_files_of_a_set_to_its_metrics(tmp_path: Path) -> None:
    """The accuracy in the record is that of the predictions, counted by hand."""
    import torch

    import headtohead as h2h

    SETS["cifar10"](tmp_path / "set")
    overrides = [
        "data=cifar10", f"data.folder={tmp_path / 'set'}", "data.image_size=8", "task=image_classification",
        "model=mlp", "trainer=cpu", "trainer.threads=1", "trainer.max_steps=60", "trainer.validate_every=30",
        "optimizer.lr=3e-3", "augmentation=[random_crop,horizontal_flip]", "augmentation.steps.random_crop.margin=1",
        "tracking=none", "probe=none", "trainer.progress_bar=false", f"output_dir={tmp_path / 'outputs'}",
    ]  # fmt: skip
    record = h2h.train(h2h.compose("train", overrides))
    run = h2h.load_run(record.path)
    test = build_data(compose("train", overrides)).split("test")
    batch = test.batch(np.arange(len(test)))
    with torch.no_grad():
        predicted = run.model(images=batch.images).argmax(1)
    assert batch.targets is not None
    right = float((predicted == batch.targets).float().mean())
    assert record.metrics["test"]["accuracy"] == pytest.approx(right) and right > 0.3
