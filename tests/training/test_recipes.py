"""The recipes of published size, at a reduced one: each is planned, trains a step on its data's own schema, and builds
the model that was published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headtohead as h2h
from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose_checked
from headtohead.pretrained.families import FAMILIES
from published_sets import all_sets

ONE_STEP = [
    "trainer=cpu", "trainer.devices=1", "trainer.max_steps=1", "trainer.validate_every=1", "trainer.threads=1",
    "trainer.compile=false", "trainer.num_workers=0", "trainer.accumulate=1", "trainer.progress_bar=false",
    "trainer.num_samples=0", "trainer.keep_checkpoints=none", "tracking=none", "probe=none", "schedule.warmup=0",
]  # fmt: skip
TINY = ["model.d_model=16", "model.num_layers=1", "model.num_heads=2"]
CORPUS = [
    "data.num_validation=30", "data.num_test=40", "data.num_learned=100", "data.lanes=2", "data.tokenizer=bpe",
    "data.vocab_size=300", "data.context_length=32",
]  # fmt: skip
IN_TOKENS = ["trainer.batch_tokens=256"]
IN_ROWS = ["data.batch_size=8"]
REDUCED: dict[str, tuple[str, list[str]]] = {
    "gpt2_124m_fineweb": ("fineweb_edu", [*TINY, *CORPUS, *IN_TOKENS]),
    "bert_base_wikipedia": ("wikipedia", [*TINY, *CORPUS, "data.tokenizer=wordpiece", *IN_ROWS]),
    "vit_s16_imagenet": (
        "imagenet",
        [*TINY, *IN_ROWS, "data.image_size=32", "data.num_validation=12", "data.num_measured=60", "data.lanes=2"],
    ),
    "vit_finetune": ("photos", [*TINY, *IN_ROWS, "data.image_size=32"]),
    "t5_small_translation": (
        "wmt14",
        [*TINY, *IN_ROWS, "data.tokenizer=bpe", "data.vocab_size=300", "data.max_length=24", "task.max_new_tokens=8"],
    ),
    "modern_1b": (
        "fineweb_edu",
        [*TINY, *CORPUS, *IN_TOKENS, "model.mixer.num_kv_heads=1", "data.subset=sample-10BT"],
    ),
}
"""The data of each recipe, and the overrides that make it small."""


def write_photos(folder: Path) -> None:
    """Two classes of pictures, a folder each."""
    for name, red in (("rose", 200), ("fern", 20)):
        for number in range(12):
            path = folder / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((20, 20, 3), (red, 10 * number, 0), np.uint8)).save(path)


LARGE = ("vit_s16_imagenet", "bert_base_wikipedia")
"""Recipes of which even a reduced step takes seconds."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository of the schema of each recipe's data."""
    folder = tmp_path_factory.mktemp("data")
    for name in {name for name, _ in REDUCED.values()}:
        (write_photos if name == "photos" else all_sets()[name])(folder / name)
    return folder


def test_every_recipe_is_here() -> None:
    assert {choice.name for choice in choices("experiment") if "group: recipes" in choice.path.read_text()} == {
        *REDUCED
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in REDUCED]
)
def test_a_recipe_trains_a_step(recipe: str, data: Path, tmp_path: Path) -> None:
    record = h2h.train({**reduced(recipe, data), "output_dir": str(tmp_path)})
    assert record.status == "finished" and record.progress.step == 1
    assert all(np.isfinite(value) for value in record.metrics["test"].values())


@pytest.mark.slow
def test_a_published_vision_transformer_learns_the_classes_of_a_folder(data: Path, tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    ViTModel(ViTConfig(**sizes, image_size=32, patch_size=16)).save_pretrained(tmp_path / "published")
    overrides = ["experiment=vit_finetune", *ONE_STEP, *IN_ROWS, "data.image_size=32", f"data.path={data / 'photos'}"]
    record = h2h.train([*overrides, f"init_from=hf:{tmp_path / 'published'}", f"output_dir={tmp_path}"])
    assert record.status == "finished" and record.config["model"]["d_model"] == 16
    assert record.data["classes"] == ["fern", "rose"]


@pytest.mark.whole
@pytest.mark.parametrize("recipe", REDUCED)
def test_a_recipe_is_planned(recipe: str, data: Path) -> None:
    best = h2h.plan(reduced(recipe, data), "l40s").best
    assert best is not None and best.memory is not None


def reduced(recipe: str, data: Path) -> dict[str, Any]:
    """Return the configuration of a recipe on its small data, for one step of a small model."""
    name, small = REDUCED[recipe]
    where = f"data.path={data / name}" if name == "photos" else f"data.folder={data / name}"
    return compose_checked("train", [f"experiment={recipe}", *ONE_STEP, *small, where])


PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2_124m_fineweb": (
        "gpt2",
        {"n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257, "resid_pdrop": 0.0},
    ),
    "bert_base_wikipedia": (
        "bert",
        {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072,
         "vocab_size": 30522, "max_position_embeddings": 512},
    ),
    "vit_finetune": (
        "vit",
        {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072,
         "image_size": 224, "patch_size": 16, "num_channels": 3},
    ),
    "t5_small_translation": (
        "t5",
        {"d_model": 512, "d_ff": 2048, "d_kv": 64, "num_heads": 8, "num_layers": 6, "vocab_size": 32128},
    ),
}  # fmt: skip
"""The configurations that were published with the weights of four recipes' models."""
FROM_DATA = ("vocab_size", "max_length", "max_target_length", "image_shape", "num_classes")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", PUBLISHED)
def test_a_recipe_builds_the_published_model(recipe: str) -> None:
    model_type, published = PUBLISHED[recipe]
    family = next(family for family in FAMILIES if family.model_type == model_type)
    head = next(head for head in family.architectures.values() if head)
    overrides = family.overrides(family.complete({"model_type": model_type, **published}), head)
    ours = compose_checked("train", [f"experiment={recipe}"])["model"]
    theirs = compose_checked("train", [f"experiment={recipe}", *overrides])["model"]
    assert _differing(ours, theirs) == {}


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two models differ, but for those that the data decides, or that follow from others."""
    result: dict[str, tuple[Any, Any]] = {}
    for name in (ours.keys() | theirs.keys()) - {*FROM_DATA}:
        one, other = ours.get(name), theirs.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            result |= _differing(one, other, f"{path}{name}.")
        elif one is not None and one != other:
            result[f"{path}{name}"] = (one, other)
    return result


@pytest.mark.slow
def test_the_large_recipe_has_the_parameters_that_it_says(data: Path) -> None:
    own = ["data.subset=sample-10BT", f"data.folder={data / 'fineweb_edu'}", "model.vocab_size=49152"]
    config = compose_checked("train", ["experiment=modern_1b", *CORPUS, *own])
    assert h2h.inspect(config).ledger.totals.parameters == 1_073_811_456
