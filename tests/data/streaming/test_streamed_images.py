"""Images read as a stream: which rows, in which order, on which device, and what is on disk of them."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from pyarrow import parquet

from data.small_sources import CONF
from from_fields import fields_taken, from_fields
from headtohead.config.compose.composition import compose
from headtohead.config.origins.from_weights import build_data
from headtohead.data.batches.row_order import Order, order_of
from headtohead.data.data_source import DataError
from headtohead.data.streaming.streamed_images import StreamedImages
from hub_server import hub_of
from published_sets.images import SETS

NAME, REVISION = "ILSVRC/imagenet-1k", "49e2ee26f3810fb5a7536bbf732a7b07389a47b5"
SMALL = {"test_split": "validation", "image_size": 16, "lanes": 3, "shuffle_buffer": 14, "batch_size": 6}
HELD_OUT = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("imagenet")
    SETS["imagenet"](made)
    return made


def source_of(folder: Path, **chosen: Any) -> StreamedImages:
    return from_fields(StreamedImages, **{**SMALL, "folder": str(folder), **chosen})


def order(source: StreamedImages, *, seed: int = 0) -> Order:
    return order_of(source.split("train"), batch_size=source.batch_size, seed=seed)


def files_in_order(folder: Path) -> list[tuple[bytes, int]]:
    tables = [parquet.read_table(path) for path in sorted((folder / "data").glob("train-*"))]
    return [
        (picture["bytes"], label)
        for table in tables
        for picture, label in zip(table["image"].to_pylist(), table["label"].to_pylist(), strict=True)
    ]


def pixels(content: bytes, folder: Path) -> np.ndarray:
    """Crop by another way than Pillow's own fit: 40 high and 30 wide, the middle 30 lines."""
    path = folder / "one.jpg"
    path.write_bytes(content)
    with Image.open(path) as image:
        assert image.size == (30, 40)
        return np.asarray(image.convert("RGB").resize((16, 16), Image.Resampling.BICUBIC, box=(0, 5, 30, 35)))


def test_yaml_says_what_the_constructor_takes_by_itself() -> None:
    chosen = yaml.safe_load((CONF / "stream_images.yaml").read_text())
    assert chosen.pop("_target_").rpartition(".")[2] == "StreamedImages"
    assert chosen == dict(fields_taken(StreamedImages))


@pytest.mark.slow
def test_one_pass_reads_every_train_image_once_with_its_label(folder: Path, tmp_path: Path) -> None:
    source = source_of(folder, lanes=1)
    spec, train, steps = source.spec(), source.split("train"), order(source)
    assert len(train) == 120 - HELD_OUT and spec.num_classes == 1000
    batches = [train.batch(steps.step(step)[1]) for step in range(18)]
    images = torch.cat([batch.images for batch in batches if batch.images is not None])
    labels = torch.cat([batch.targets for batch in batches if batch.targets is not None])
    mean, deviation = np.array(spec.image_mean), np.array(spec.image_deviation)
    levels = np.rint((images.permute(0, 2, 3, 1).double().numpy() * deviation + mean) * 255).astype(np.uint8)
    result = Counter((label, image.tobytes()) for label, image in zip(labels.tolist(), levels, strict=True))
    files = files_in_order(folder)
    expected = Counter((label, pixels(content, tmp_path).tobytes()) for content, label in files[HELD_OUT:])
    assert result == expected
    validation = source.split("validation").batch(np.arange(HELD_OUT))
    assert validation.targets is not None and validation.targets.tolist() == [label for _, label in files[:HELD_OUT]]


@pytest.mark.slow
def test_labels_of_another_column_are_not_those_that_were_kept(tmp_path: Path) -> None:
    SETS["cifar100"](tmp_path)

    def labels(column: str) -> list[int]:
        source = source_of(tmp_path, test_split="test", label_column=column, image_size=4)
        result = source.split("train").batch(order(source).step(0)[1]).targets
        assert result is not None
        return result.tolist()

    fine, coarse = labels("fine_label"), labels("coarse_label")
    assert max(fine) >= 20 and coarse == [label % 20 for label in fine], "as the pictures were written"


@pytest.mark.slow
def test_names_of_classes_and_splits_follow_the_card_though_the_files_stay(tmp_path: Path) -> None:
    SETS["imagenet"](tmp_path)
    card, small = tmp_path / "README.md", {"image_size": 4, "num_validation": 6}
    first = source_of(tmp_path, **small)
    assert first.spec().class_names[1] == "goldfish, Carassius auratus" and len(first.split("train")) == 114
    message = card.read_text(encoding="utf-8").replace("goldfish, Carassius auratus", "not a fish")
    card.write_text(message, encoding="utf-8")
    assert source_of(tmp_path, **small).spec().class_names[1] == "not a fish"
    halves = [f"data/train-0000{half}-of-00002.parquet" for half in range(2)]
    message = message.replace("path: data/train-*", f"path: {halves[0]}").replace(
        "path: data/validation-*", "path: [OTHERS]"
    )
    card.write_text(message.replace("[OTHERS]", f"[{halves[1]}, 'data/validation-*']"), encoding="utf-8")
    moved = source_of(tmp_path, **small)
    assert len(moved.split("train")) == 54 and len(moved.split("test")) == 80


@pytest.mark.slow
def test_any_step_can_be_reached_at_once_and_seeds_differ(folder: Path) -> None:
    source = source_of(folder)
    whole = [order(source).step(step)[1].tolist() for step in range(40)]
    again = order(source_of(folder))
    assert [again.step(step)[1].tolist() for step in (39, 3, 20)] == [whole[39], whole[3], whole[20]]
    other = order(source, seed=1)
    assert [other.step(step)[1].tolist() for step in range(5)] != whole[:5]
    assert order(source).step(39)[0] >= 1


@pytest.mark.parametrize("world_size", [2, 3])
def test_devices_share_out_the_rows_of_one(folder: Path, world_size: int) -> None:
    steps = order(source_of(folder))
    for step in (0, 7, 25):
        parts = [steps.step(step, rank=rank, world_size=world_size)[1] for rank in range(world_size)]
        assert sorted(np.concatenate(parts).tolist()) == sorted(steps.step(step)[1].tolist())


def test_a_row_is_the_same_under_every_seed_and_in_another_process(folder: Path) -> None:
    source = source_of(folder)
    train = source.split("train")
    rows = order(source).step(2)[1]
    sent = pickle.dumps(train)
    assert len(sent) < 20_000
    one, other = train.batch(rows), pickle.loads(sent).batch(rows[::-1].copy())
    assert one.images is not None and other.images is not None and torch.equal(one.images.flip(0), other.images)


@pytest.mark.slow
def test_stream_comes_over_the_network_and_what_is_on_disk_is_not_fetched_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    overrides = ["data=imagenet", "data.image_size=16", "data.batch_size=6", "data.lanes=2"]
    with hub_of({NAME: folder}, monkeypatch, tmp_path / "hub", commits={NAME: REVISION}) as hub:
        source = build_data(compose("train", overrides))
        assert source.spec().class_names[0] == "tench, Tinca tinca"
        rows = order(source).step(0)[1]  # type: ignore[arg-type]
        first = source.split("train").batch(rows)
    assert hub.requested
    again = build_data(compose("train", overrides)).split("train").batch(rows)
    assert first.images is not None and again.images is not None and torch.equal(first.images, again.images)


def test_gated_set_is_reported_in_one_sentence(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with hub_of({NAME: folder}, monkeypatch, tmp_path / "hub", commits={NAME: REVISION}) as hub:
        hub.gated.add(NAME)
        with pytest.raises(DataError) as refused:
            build_data(compose("train", ["data=imagenet", "data.image_size=16"])).spec()
    assert NAME in str(refused.value) and "\n" not in str(refused.value)


def test_hidden_labels_are_reported_with_the_split_that_has_some(folder: Path) -> None:
    with pytest.raises(DataError, match="the labels of its test split are not published") as refused:
        source_of(folder, test_split="test").prepare()
    assert "give data.test_split=validation" in str(refused.value)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"num_validation": 0}, "data.num_validation=0 must be at least 1"),
        ({"keep_gigabytes": 0}, "data.keep_gigabytes=0 must be above 0"),
        ({"label_column": "kind"}, "data.label_column=kind is not a column"),
        ({"train_split": "trian"}, "has no split 'trian'"),
        ({"test_split": "train"}, "data.test_split=train is what data.train_split=train reads too.*_split=validation"),
    ],
)
def test_senseless_choices_are_refused(folder: Path, chosen: dict[str, Any], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        source_of(folder, **chosen).prepare()
