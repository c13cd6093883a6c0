"""Rows of the data made as long as a benchmark asks for, so that every task can be measured at every length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSource, DataSpec
from headtohead.tasks.contracts import Task


def batch_of_length(task: Task, data: DataSource, *, batch_size: int, length: int, patch: int | None) -> Batch:
    """Real rows as the task shows them, repeated to the length and without padding; targets go along."""
    split = data.split("train")
    rows = np.arange(batch_size, dtype=np.int64) % len(split)
    batch = task.view(split.batch(rows), seed=0, epoch=0)
    if batch.images is not None:
        return replace(batch, images=_tiled(batch.images, image_side(length, patch)))
    target_side = batch.decoder_tokens is not None
    batch = _stretched(batch, ("tokens", "token_types", "segments", "positions"), "valid", length, not target_side)
    if target_side:
        batch = _stretched(batch, ("decoder_tokens",), "decoder_valid", length, True)
    return replace(batch, num_bytes=None)


def spec_of_length(spec: DataSpec, *, length: int, patch: int | None) -> DataSpec:
    """What such data would say of itself."""
    if spec.image_shape is not None:
        side = image_side(length, patch)
        return replace(spec, image_shape=(spec.image_shape[0], side, side))
    return replace(spec, max_length=length, max_target_length=length if spec.max_target_length else 0)


def patch_of(config: Mapping[str, Any]) -> int | None:
    """The side of a model's patches, where it cuts images into such."""
    patch: int | None = config["model"].get("patch_size")
    return patch


def image_side(length: int, patch: int | None) -> int:
    """Of the square image whose number of patches comes nearest to the length."""
    return max(1, round(math.sqrt(length))) * (patch or 1)


def _stretched(batch: Batch, names: tuple[str, ...], valid: str, length: int, with_targets: bool) -> Batch:
    tokens = getattr(batch, names[0])
    assert tokens is not None, "a batch has tokens or images"
    mask = getattr(batch, valid)
    lengths = mask.sum(1) if mask is not None else torch.full((len(tokens),), tokens.shape[1])
    places = torch.arange(length) % lengths[:, None]
    changed: dict[str, Tensor | None] = {valid: None}
    for name in names:
        values = getattr(batch, name)
        changed[name] = None if values is None else values.gather(1, places)
    if changed.get("segments") is not None:
        repeats = torch.arange(length) // lengths[:, None]
        changed["segments"] = changed["segments"] + repeats * (int(batch.segments.max()) + 1)  # type: ignore[union-attr]
    targets = batch.targets
    if with_targets and targets is not None:
        per_token = targets.shape == tokens.shape
        changed["targets"] = targets.gather(1, places) if per_token else _within(targets, tokens, length)
    return replace(batch, **changed)  # type: ignore[arg-type]


def _within(targets: Tensor, tokens: Tensor, length: int) -> Tensor:
    """Labels stay as they are; places of an answer must lie in a row that was cut."""
    return targets.clamp(max=length - 1) if targets.ndim == 2 and length < tokens.shape[1] else targets


def _tiled(images: Tensor, side: int) -> Tensor:
    height, width = images.shape[2:]
    return images.repeat(1, 1, -(-side // height), -(-side // width))[:, :, :side, :side].contiguous()
