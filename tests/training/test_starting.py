"""Starting from another run's weights: what is taken, what is fresh, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from headtohead.architectures.architecture import Architecture
from headtohead.components.norms import RmsNorm
from headtohead.components.positions.absolute import Learned
from headtohead.components.positions.relative import T5Bias
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import BEST, load, save, save_weights
from headtohead.training.initial_weights import start_from
from small_models import redraw, small_model

CLASSIFIER: dict[str, Any] = {"head": "classifier", "num_classes": 3}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = RunFolder.create(tmp_path, name="first")
    run.write_record(RunRecord(id=run.id, status="finished"))
    return run


def trained(folder: RunFolder, family: str, *, classes: tuple[str, ...] = (), **changes: Any) -> Architecture:
    """A model whose weights the run holds as its best."""
    model = redraw(small_model(family, **changes))
    assert isinstance(model, Architecture)
    head = type(model.head).__name__
    path = folder.checkpoints / BEST
    save_weights(model.state_dict(), path, step=1, metrics={}, head=head, class_names=classes)
    return model


def body(model: Architecture) -> dict[str, torch.Tensor]:
    return {name: held for name, held in model.state_dict().items() if not name.startswith("head.")}


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_the_body_is_taken_and_a_head_for_another_purpose_is_fresh(folder: RunFolder, family: str) -> None:
    first, second = trained(folder, family), small_model(family, seed=5, **CLASSIFIER)
    head = second.head.linear.weight.detach().clone()
    start = start_from(second, folder.path, class_names=("a", "b", "c"))
    assert all(torch.equal(held, body(first)[name]) for name, held in body(second).items())
    assert torch.equal(second.head.linear.weight, head)
    assert set(start.fresh) == {"head.linear.weight", "head.linear.bias"}
    assert all(name.startswith("head.") for name in start.left_aside)
    assert "taken: embedding" in str(start) and "fresh: head.linear" in str(start)
    assert ("left aside: head" in str(start)) is (family == "encoder_only"), "a decoder's head is its embedding"


@pytest.mark.parametrize("tie_weights", [True, False])
def test_a_head_for_the_same_purpose_is_taken_too(folder: RunFolder, tie_weights: bool) -> None:
    first = trained(folder, "encoder_only", tie_weights=tie_weights)
    second = small_model("encoder_only", seed=5, tie_weights=tie_weights)
    start = start_from(second, folder.path)
    tokens = torch.arange(10)[None]
    assert torch.equal(first(tokens), second(tokens)) and not start.fresh and not start.left_aside


def test_a_head_tied_here_and_not_there_is_the_embedding(folder: RunFolder) -> None:
    first = trained(folder, "decoder_only", tie_weights=False)
    second = small_model("decoder_only", seed=5)
    start = start_from(second, folder.path)
    assert second.head.weight is second.embedding.weight
    assert torch.equal(second.head.weight, first.embedding.weight)
    assert start.left_aside == ("head.weight",) and not start.fresh


@pytest.mark.parametrize(("classes", "taken"), [(("a", "b", "c"), True), (("x", "y", "z"), False)])
def test_a_head_for_classes_is_taken_for_the_same_classes_only(
    folder: RunFolder, classes: tuple[str, ...], taken: bool
) -> None:
    first = trained(folder, "encoder_only", classes=("a", "b", "c"), **CLASSIFIER)
    second = small_model("encoder_only", seed=5, **CLASSIFIER)
    start_from(second, folder.path, class_names=classes)
    assert torch.equal(second.head.linear.weight, first.head.linear.weight) is taken


def test_more_classes_get_a_head_of_their_own(folder: RunFolder) -> None:
    trained(folder, "vision_transformer")
    second = small_model("vision_transformer", seed=5, num_classes=7)
    assert start_from(second, folder.path).fresh == ("head.linear.weight", "head.linear.bias")


def test_a_longer_table_of_positions_is_cut_and_said_so(folder: RunFolder) -> None:
    first = trained(folder, "decoder_only", position=Learned, max_length=32)
    second = small_model("decoder_only", seed=5, position=Learned, max_length=9)
    start = start_from(second, folder.path)
    table = "stack.positions.0.table.weight"
    assert torch.equal(second.state_dict()[table], first.state_dict()[table][:9])
    assert start.cut == (table,) and "cut to the length needed: stack.positions" in str(start)


def test_a_shorter_table_of_positions_is_refused_with_the_way_out(folder: RunFolder) -> None:
    trained(folder, "decoder_only", position=Learned, max_length=9)
    with pytest.raises(ValueError, match=r"knows 9 positions .* needs 32: .*model\.max_length=32"):
        start_from(small_model("decoder_only", position=Learned, max_length=32), folder.path)


def test_the_places_of_an_image_are_never_cut(folder: RunFolder) -> None:
    trained(folder, "vision_transformer", position=Learned)
    smaller = small_model("vision_transformer", position=Learned, image_shape=(3, 4, 8))
    with pytest.raises(ValueError, match=r"does not fit this model: stack\.positions\.0\.table\.weight is 17 x 16"):
        start_from(smaller, folder.path)


@pytest.mark.parametrize(("changes", "name"), [({"d_model": 8}, "embedding"), ({"vocab_size": 30}, "embedding")])
def test_another_width_or_vocabulary_is_refused_with_both_shapes(
    folder: RunFolder, changes: dict[str, int], name: str
) -> None:
    trained(folder, "decoder_only")
    with pytest.raises(ValueError, match=rf"does not fit this model: {name}\.weight is 29 x 16 there and \d+ x \d+"):
        start_from(small_model("decoder_only", **changes), folder.path)


def test_a_body_of_which_little_is_there_is_refused(folder: RunFolder) -> None:
    trained(folder, "decoder_only")
    with pytest.raises(ValueError, match=r"has \d+ of the \d+ weights below this model's head, too few"):
        start_from(small_model("encoder_decoder"), folder.path)
    with pytest.raises(ValueError, match="too few"):
        start_from(small_model("decoder_only", num_layers=9), folder.path)


def test_what_the_other_run_lacks_is_fresh_and_named(folder: RunFolder) -> None:
    trained(folder, "encoder_only", num_segments=0)
    start = start_from(small_model("encoder_only", position=T5Bias), folder.path)
    assert set(start.fresh) == {"segment_embedding.weight", "stack.positions.0.table"}
    trained(folder, "decoder_only", norm=RmsNorm)
    fresh = start_from(small_model("decoder_only"), folder.path).fresh
    assert fresh and all("norm" in name for name in fresh)


def test_a_checkpoint_that_does_not_tell_its_head_is_judged_by_shapes(folder: RunFolder) -> None:
    trained(folder, "encoder_only")
    best = load(folder.checkpoints / BEST)
    save({name: best[name] for name in ("model", "step", "metrics")}, folder.checkpoints / BEST)
    assert not start_from(small_model("encoder_only"), folder.path).fresh


def test_a_run_may_be_named_by_a_file_in_it_and_must_have_weights(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match=r"holds no checkpoints/best\.ckpt"):
        start_from(small_model("decoder_only"), folder.path)
    trained(folder, "decoder_only")
    assert not start_from(small_model("decoder_only"), folder.path / "record.json").fresh
