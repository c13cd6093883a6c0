"""Restore hidden patches of an image, three quarters of all (He et al. 2022, https://arxiv.org/abs/2111.06377): the
encoder sees the others alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.pixel_decoder import PixelDecoder
from headtohead.components.embeddings import split_patches
from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import uniform
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.language_modelling import LOSS
from headtohead.metrics.metric import Metric
from headtohead.ranges import ShareLeavingSome, Width
from headtohead.tasks.class_metrics import wide
from headtohead.tasks.masked_lm import CHOOSE
from headtohead.tasks.metric_sums import MetricSums, PerStage
from headtohead.tasks.task import Decode, Loss, Task, direction_of
from headtohead.tasks.vocabulary_loss import mean

_EPS = 1e-6


class MaskedImageModelling(Task):
    """`loss` is the mean squared error over the values of hidden patches; (seed, epoch, row) alone determines which are
    hidden. With `normalise_targets` every hidden patch has mean 0 and variance 1 before it is compared."""

    head: ClassVar[HeadName] = "pixel_decoder"
    families: ClassVar[tuple[str, ...]] = ("vision_transformer",)
    data_kinds: ClassVar[tuple[str, ...]] = ("images",)
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS,)
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {"loss": ("loss", "values")}

    def __init__(
        self,
        patch_size: Width | None = None,
        mask_rate: ShareLeavingSome = 0.75,
        normalise_targets: bool = True,
        monitor: str = "loss",
    ) -> None:
        super().__init__()
        if not 0 < mask_rate < 1:
            raise UsageError(f"task.mask_rate={mask_rate} must be above 0 and below 1: some patches are seen.")
        if patch_size is None:
            raise UsageError("task.patch_size is missing: give that of the model.")
        self.patch_size, self.mask_rate, self.normalise_targets = patch_size, mask_rate, normalise_targets
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.sums = PerStage(lambda: MetricSums("loss", "values", "of_guess"))
        self._of_guess: dict[str, float] = {}

    def bind(self, spec: DataSpec) -> Task:
        num_patches, num_values = self._sizes(spec)
        if num_patches < 2:
            raise UsageError(
                f"task.patch_size={self.patch_size} leaves one patch of every image, and some are hidden while others "
                "are seen: set model.patch_size lower"
            )
        if num_values < 2 and self.normalise_targets:
            raise UsageError(
                "task.normalise_targets=true divides by the deviation within a patch, and one of this size has a "
                "single value: set it to false, or model.patch_size higher"
            )
        return super().bind(spec)

    def _sizes(self, spec: DataSpec) -> tuple[int, int]:
        """Return the number of patches of an image, and of values in one."""
        if spec.image_shape is None:
            raise UsageError("task=masked_image_modeling reads images, and this data has none: choose data of images.")
        channels, height, width = spec.image_shape
        return (height // self.patch_size) * (width // self.patch_size), channels * self.patch_size**2

    def num_visible(self, num_patches: int) -> int:
        """Return the number of patches that are seen: at least one, and not all."""
        return min(max(1, int(num_patches * (1 - self.mask_rate))), num_patches - 1)

    def num_scored(self, length: int) -> int:
        """Return the number of hidden values of an image, of whatever length its row is."""
        del length
        num_patches, num_values = self._sizes(self.spec)
        return (num_patches - self.num_visible(num_patches)) * num_values

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        num_patches, _ = self._sizes(self.spec)
        drawn = uniform(batch.rows.numpy(), num_patches, seed=seed, epoch=epoch, stream=CHOOSE)
        return self.with_hidden(batch, torch.from_numpy(drawn))

    def with_hidden(self, batch: Batch, noise: Float[Tensor, "B P"]) -> Batch:
        """Return the batch with the patches of the smallest numbers visible, and the values of the others as
        targets."""
        if batch.images is None:
            raise UsageError("task=masked_image_modeling reads images, and this data has none: choose data of images.")
        num_visible = self.num_visible(noise.shape[1])
        order = noise.argsort(dim=1, stable=True)
        visible, hidden = order[:, :num_visible].sort(dim=1).values, order[:, num_visible:].sort(dim=1).values
        targets = self._values(batch.images, hidden)
        return replace(batch, targets=targets, soft_targets=None, visible=visible)

    def _values(self, images: Float[Tensor, "B C H W"], hidden: Int[Tensor, "B K"]) -> Float[Tensor, "B K E"]:
        """Return what is to be restored of these patches."""
        values = _chosen(split_patches(wide(images), self.patch_size), hidden)
        if not self.normalise_targets:
            return values
        variance, middle = torch.var_mean(values, dim=-1, keepdim=True)
        return (values - middle) / (variance + _EPS).sqrt()

    def _values_now(self, batch: Batch) -> Float[Tensor, "B K E"]:
        """Return what is to be restored of the images as they are now: an augmentation may have changed them since
        `view` made the targets."""
        assert batch.images is not None, "view checks the images"
        return self._values(batch.images, _hidden(batch, self._sizes(self.spec)[0]))

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        errors = self._errors(model, batch)
        return Loss(total=errors.sum(), count=torch.tensor(errors.numel(), device=errors.device))

    def _errors(self, model: Architecture, batch: Batch) -> Float[Tensor, "B K E"]:
        """Return the squared error of every hidden value."""
        if not isinstance(model.head, PixelDecoder):
            raise UsageError(
                f"head={type(model.head).__name__} restores no pixels: build the model with the head that the task "
                "names."
            )
        restored = wide(model(**batch.inputs()))
        predicted = _chosen(restored, _hidden(batch, restored.shape[1]))
        return (predicted - self._values_now(batch)).square()

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        errors = self._errors(model, batch)
        values = torch.tensor(errors.numel(), device=errors.device)
        self.sums.add(stage, loss=errors.sum(), values=values, of_guess=self._guess_errors(batch).sum())
        if stage == "test" and self.rows.enabled:
            per_row = torch.full_like(batch.rows, errors[0].numel())
            self.rows.add(batch.rows, loss=errors.sum((1, 2)), values=per_row)

    def _guess_errors(self, batch: Batch) -> Float[Tensor, "B K E"]:
        """Return the squared errors of a guess: of every hidden patch its own mean, where patches are normalised; else
        the mean of what is visible, channel by channel."""
        targets = self._values_now(batch)
        if self.normalise_targets:
            return targets.square()
        assert batch.images is not None and batch.visible is not None, "view makes them"
        seen = _chosen(split_patches(wide(batch.images), self.patch_size), batch.visible)
        by_channel = seen.unflatten(2, (batch.images.shape[1], -1)).mean((1, 3))
        guess = by_channel.repeat_interleave(self.patch_size**2, dim=1)[:, None]
        errors: Tensor = (targets - guess).square()
        return errors

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self._of_guess[stage] = mean(sums["of_guess"], sums["values"], "hidden value")
        return {LOSS.name: mean(sums["loss"], sums["values"], "hidden value")}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the loss of giving every hidden patch its own mean, if none is of a single colour; nothing where
        targets are not normalised, since it depends on the images."""
        _, num_values = self._sizes(spec)
        return {LOSS.name: (num_values - 1) / num_values} if self.normalise_targets else {}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of a guess without a model on the stage's images: of every hidden patch its own mean, where
        patches are normalised; else the mean of what is visible."""
        return {LOSS.name: self._of_guess[stage]} if stage in self._of_guess else {}

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return how much of each image was hidden, and how well it was restored."""
        del decode
        with torch.no_grad():
            errors, guessed = self._errors(model, batch), self._guess_errors(batch)
        num_patches, _ = self._sizes(self.spec)
        return [
            {
                "row": str(int(batch.rows[row])),
                "hidden": f"{errors.shape[1]} of {num_patches} patches",
                "error": f"{float(errors[row].mean()):.3f}",
                "error of a guess": f"{float(guessed[row].mean()):.3f}",
            }
            for row in range(batch.num_samples)
        ]


def _chosen(patches: Float[Tensor, "B P E"], index: Int[Tensor, "B K"]) -> Float[Tensor, "B K E"]:
    return patches.gather(1, index[..., None].expand(-1, -1, patches.shape[2]))


def _hidden(batch: Batch, num_patches: int) -> Int[Tensor, "B K"]:
    """Return the numbers of the patches that are not visible, in their order."""
    assert batch.visible is not None, "view chooses what is visible"
    is_hidden = batch.visible.new_ones(batch.num_samples, num_patches).scatter(1, batch.visible, 0)
    return is_hidden.argsort(dim=1, descending=True, stable=True)[:, : num_patches - batch.visible.shape[1]]
