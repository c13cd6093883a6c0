"""Masked image modelling hides what (seed, epoch, row) say, shows the encoder the rest, and scores what is hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from headtohead.architectures.ledger import RowFlops, ledger
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.architectures.pixel_decoder import PixelDecoder
from headtohead.components.embeddings import split_patches
from headtohead.components.positions.absolute import Learned
from headtohead.components.positions.image_positions import Rotary2d
from headtohead.config.build import sample_size
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.interpretability.recorded_attention import attention_maps
from headtohead.tasks.masked_image import MaskedImageModelling
from small_models import exact_model, small_model
from task_cases import IMAGES, image_batch

CPU = torch.device("cpu")


def task_of(**options: Any) -> MaskedImageModelling:
    task = MaskedImageModelling(patch_size=2, **options)
    task.bind(IMAGES)
    return task


def model_of(**changes: Any) -> Any:
    return exact_model("vision_transformer", head="pixel_decoder", **changes).eval()


def exact_batch(num_rows: int = 4) -> Batch:
    return image_batch(num_rows).map(lambda value: value.double() if value.is_floating_point() else value)


def hidden_of(view: Batch) -> list[set[int]]:
    assert view.visible is not None
    return [set(range(16)) - set(row.tolist()) for row in view.visible]


@pytest.mark.parametrize(("rate", "seen"), [(0.75, 4), (0.5, 8), (0.99, 1), (0.01, 15)])
def test_a_share_of_the_patches_is_visible_in_order_and_the_others_are_targets(rate: float, seen: int) -> None:
    view = task_of(mask_rate=rate, normalise_targets=False).view(exact_batch(), seed=0, epoch=0)
    assert view.visible.shape == (4, seen)
    assert bool((view.visible.diff(dim=1) > 0).all())
    patches = split_patches(view.images, 2)
    for row, hidden in enumerate(hidden_of(view)):
        assert torch.equal(view.targets[row], patches[row, sorted(hidden)])


def test_a_row_hides_the_same_in_any_batch_and_others_in_another_epoch_or_seed() -> None:
    task, batch = task_of(), exact_batch(6)
    all_at_once = hidden_of(task.view(batch, seed=1, epoch=2))
    alone = hidden_of(task.view(batch.chosen(torch.tensor([3])), seed=1, epoch=2))
    assert alone == all_at_once[3:4]
    assert hidden_of(task.view(batch, seed=1, epoch=3)) != all_at_once
    assert hidden_of(task.view(batch, seed=2, epoch=2)) != all_at_once
    assert len({tuple(sorted(hidden)) for hidden in all_at_once}) > 1


def test_normalised_targets_have_mean_0_and_variance_1_within_each_patch() -> None:
    targets = task_of().view(exact_batch(), seed=0, epoch=0).targets
    assert targets.shape == (4, 12, 12)
    torch.testing.assert_close(targets.mean(-1), torch.zeros(4, 12, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(targets.var(-1), torch.ones(4, 12, dtype=torch.float64), rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", range(1, 10))
def test_patches_that_do_not_divide_an_image_are_refused_in_a_sentence(size: int) -> None:
    images = torch.zeros(1, 3, 8, 8)
    if 8 % size == 0:
        assert split_patches(images, size).shape == (1, (8 // size) ** 2, 3 * size**2)
    else:
        with pytest.raises(UsageError, match=rf"model\.patch_size={size} does not divide images of 8 x 8"):
            split_patches(images, size)


def test_a_patch_of_one_colour_has_no_structure_to_restore() -> None:
    batch = replace(exact_batch(), images=torch.ones(4, 3, 8, 8, dtype=torch.float64))
    assert task_of().view(batch, seed=0, epoch=0).targets.abs().max() == 0


@pytest.mark.parametrize("changes", [{}, {"position": Learned}, {"pooling": "mean", "position": Rotary2d}], ids=str)
def test_hidden_pixels_change_nothing_that_is_restored(changes: dict[str, Any]) -> None:
    model, view = model_of(**changes), task_of().view(exact_batch(), seed=0, epoch=0)
    changed = split_patches(view.images, 2)
    for row, hidden in enumerate(hidden_of(view)):
        changed[row, sorted(hidden)] += 1.0
    other = changed.unflatten(1, (4, 4)).unflatten(3, (3, 2, 2)).permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)
    restored = model(**view.inputs())
    assert restored.shape == (4, 16, 12)
    torch.testing.assert_close(model(**replace(view, images=other).inputs()), restored, rtol=0, atol=1e-12)


@pytest.mark.parametrize("changes", [{"position": Learned}, {"pooling": "mean", "position": Rotary2d}], ids=str)
def test_the_encoder_indices_visible_patches_where_they_are(changes: dict[str, Any]) -> None:
    model, batch = model_of(**changes), exact_batch()
    everything = torch.arange(16).expand(4, -1)
    torch.testing.assert_close(
        model.features(batch.images, everything), model.features(batch.images), rtol=0, atol=1e-12
    )
    torch.testing.assert_close(model(batch.images, everything), model(batch.images), rtol=0, atol=1e-12)
    few = torch.tensor([1, 6, 11]).expand(4, -1)
    assert (model.features(batch.images, few) - model.features(batch.images, few + 1)).abs().max() > 1e-3


def test_the_loss_is_the_mean_squared_error_over_hidden_values() -> None:
    task, model = task_of(), model_of()
    view = task.view(exact_batch(), seed=0, epoch=0)
    restored, expected = model(**view.inputs()), []
    for row, hidden in enumerate(hidden_of(view)):
        expected.append((restored[row, sorted(hidden)] - view.targets[row]).square())
    loss = task.loss(model, view)
    assert loss.mean.item() == pytest.approx(torch.stack(expected).mean().item(), abs=1e-12)
    assert int(loss.count) == 4 * 12 * 12 == 4 * task.num_scored(0)
    task.measure("test", model, view.chosen(torch.arange(3)))
    task.measure("test", model, view.chosen(torch.arange(3, 4)))
    assert task.results("test")["loss"] == pytest.approx(loss.mean.item(), abs=1e-12)


@pytest.mark.parametrize("normalise", [True, False])
def test_an_augmented_image_is_restored_as_it_is_shown(normalise: bool) -> None:
    task, model = task_of(normalise_targets=normalise), model_of()
    view = task.view(exact_batch(), seed=0, epoch=0)
    flipped = replace(view, images=view.images.flip(3))
    again = task.view(replace(exact_batch(), images=view.images.flip(3)), seed=0, epoch=0)
    assert task.loss(model, flipped).mean.item() == task.loss(model, again).mean.item()
    assert task.loss(model, flipped).mean.item() != task.loss(model, view).mean.item()


def test_every_parameter_learns() -> None:
    task, model = task_of(), small_model("vision_transformer", head="pixel_decoder", position=Learned)
    task.loss(model, task.view(image_batch(4), seed=0, epoch=0)).mean.backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


def test_the_guess_is_the_mean_of_each_patch_or_of_what_is_visible() -> None:
    normalised, plain, batch, model = task_of(), task_of(normalise_targets=False), exact_batch(), model_of()
    for task in (normalised, plain):
        assert task.measured_baseline("test") == {}
        task.measure("test", model, task.view(batch, seed=0, epoch=0))
        task.results("test")
    assert normalised.measured_baseline("test")["loss"] == pytest.approx(11 / 12, abs=1e-4)
    assert normalised.baseline(IMAGES) == {"loss": 11 / 12}
    assert plain.baseline(IMAGES) == {}
    view = plain.view(batch, seed=0, epoch=0)
    patches, errors = split_patches(view.images, 2), []
    for row in range(4):
        middle = patches[row, view.visible[row]].unflatten(1, (3, 4)).mean((0, 2))
        errors.append((view.targets[row].unflatten(1, (3, 4)) - middle[:, None]).square())
    assert plain.measured_baseline("test")["loss"] == pytest.approx(torch.stack(errors).mean().item(), abs=1e-12)


@pytest.mark.parametrize("changes", [{}, {"pooling": "mean"}, {"decoder_width": 24, "decoder_layers": 2}], ids=str)
def test_declared_costs_are_those_of_the_visible_patches_and_of_the_decoder(changes: dict[str, Any]) -> None:
    model, task = small_model("vision_transformer", head="pixel_decoder", **changes), task_of()
    size = sample_size(task, task.spec)
    totals = ledger(model, size).totals
    assert totals.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert totals.palm_flops_per_token is None
    inputs = model.example_inputs(size, 1, CPU)
    assert inputs["visible"].shape == (1, 4)
    with counting() as forward, saved_bytes(model) as saved:
        logits = model(**inputs)
    assert totals.activation_bytes == pytest.approx(saved(), rel=0.05)
    with counting() as backward:
        logits.sum().backward()
    assert totals.forward_flops_per_sample == forward.products
    assert totals.training_flops_per_sample == forward.products + backward.products
    scored = 5 * task.num_scored(0)
    assert RowFlops(model).of({(0, 0): 5}, scored=scored) == (5 * totals.training_flops_per_sample, 0)


def test_maps_lie_on_the_whole_grid_with_nothing_where_nothing_was_seen() -> None:
    model, view = model_of(), task_of().view(exact_batch(2), seed=0, epoch=0)
    maps = attention_maps(model, view.inputs())
    assert [one.name for one in maps] == ["stack.0.mixer", "stack.1.mixer"]
    assert maps[0].weights.shape == (2, 2, 17, 17)
    for row, hidden in enumerate(hidden_of(view)):
        indices = torch.tensor(sorted(hidden)) + 1
        assert maps[0].weights[row][:, indices].abs().max() == maps[0].weights[row][:, :, indices].abs().max() == 0
        assert maps[0].query_valid[row].nonzero().flatten().tolist() == [0, *(view.visible[row] + 1).tolist()]
    total: Tensor = maps[0].weights.sum(-1)
    torch.testing.assert_close(total, maps[0].query_valid[:, None].expand_as(total).float())


def test_the_decoder_is_half_as_wide_as_the_encoder_unless_told() -> None:
    widths = []
    for changes in ({}, {"decoder_width": 24, "decoder_heads": 3}):
        head = small_model("vision_transformer", head="pixel_decoder", **changes).head
        assert isinstance(head, PixelDecoder)
        widths.append((head.stack.d_model, head.stack.num_heads, head.stack.num_layers))
    assert widths == [(8, 2, 1), (24, 3, 1)]


@pytest.mark.parametrize(
    ("options", "spec", "message"),
    [
        ({"patch_size": 8}, IMAGES, "leaves one patch of every image"),
        ({"patch_size": 1}, replace(IMAGES, image_shape=(1, 8, 8)), "single value: set it to false"),
        ({"patch_size": 2, "mask_rate": 1.0}, IMAGES, "must be above 0 and below 1"),
        ({}, IMAGES, r"task\.patch_size is missing"),
        ({"patch_size": 2}, DataSpec(kind="language"), "reads images, and this data has none"),
    ],
)
def test_what_cannot_be_hidden_is_refused(options: dict[str, Any], spec: DataSpec, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskedImageModelling(**options).bind(spec)


def test_decoder_heads_that_do_not_divide_its_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.decoder_heads=3 does not divide model\.decoder_width=8"):
        small_model("vision_transformer", head="pixel_decoder", decoder_width=8, decoder_heads=3)
