"""One case measured in a process of its own, so that no case inherits another's memory or is killed with it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import clip_grad_norm_

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.ledger import ledger
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.stack import Stack
from headtohead.config.build import build_task, make_model
from headtohead.config.instantiate import make
from headtohead.config.origins.from_weights import build_data
from headtohead.config.rules.data_rules import fit
from headtohead.config.run_config import RunConfig
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSource, DataSpec
from headtohead.diagnostics.bench.benchmark_plan import BenchmarkCase, Measure, Variant
from headtohead.tasks.task import Task
from headtohead.training.loop.compiled_model import compile_features
from headtohead.training.loop.precision import Precision
from headtohead.training.memory import PeakMemory
from headtohead.training.optim.weight_updates import UnitWeights
from headtohead.training.parallel.devices import threads

LEAST_REPEATS, MOST_REPEATS = 3, 50

Status = Literal["measured", "out_of_memory", "failed", "left_out"]


@dataclass(frozen=True)
class CaseMeasurement:
    """A case measurement is what one process measured of one case."""

    case: BenchmarkCase
    status: Status = "measured"
    reason: str = ""
    length: int = 0
    """Tokens or patches that a row really had."""
    seconds: float = 0.0
    """Median over the repeats."""
    peak_bytes: int = 0
    """The most memory held at once, beyond what the process held before the model was made."""
    tokens: int = 0
    """The tokens of the batch, both sides together."""
    flops: int = 0
    """The model's own for this work: forward, or forward and backward."""


def measure(config: Mapping[str, object], case: BenchmarkCase, *, seconds: float) -> CaseMeasurement:
    """Builds data, model and optimizer for the case, does the work until `seconds` have passed."""
    device = _device(config)
    with threads(RunConfig(config).threads):
        data = build_data(config)
        task = build_task(config, data.spec())
        patch = patch_of(config)
        batch = batch_of_length(task, data, batch_size=case.variant.batch_size, length=case.length, patch=patch)
        filled = fit(config, spec_of_length(data.spec(), length=case.length, patch=patch))
        peak = PeakMemory(device)
        before = peak.read() if device.type == "cpu" else 0
        torch.manual_seed(0)
        model = _model(filled, case.variant, device)
        work = _work(case, model, task.to(device), filled, _on(batch, device, case.variant))
        with _kernels(case.variant):
            taken = list(_timed(work, device, seconds))
        return CaseMeasurement(
            case,
            length=_num_tokens(model, batch) - _size(batch, all_scored=True).decoder_length,
            seconds=sorted(taken)[len(taken) // 2],
            peak_bytes=peak.read() - before,
            tokens=_num_tokens(model, batch) * batch.num_samples,
            flops=_flops(model, batch, case.measure),
        )


def _device(config: Mapping[str, object]) -> torch.device:
    on_gpu = RunConfig(config).accelerator != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if on_gpu else "cpu")


def _model(filled: Mapping[str, object], variant: Variant, device: torch.device) -> Architecture:
    model = make_model(filled).to(device, Precision(variant.precision).of_weights)
    for module in model.modules():
        if isinstance(module, Stack):
            module.checkpointing = Checkpointing(variant.checkpointing)
    if variant.compile:
        compile_features(model)
    return model


def _work(
    case: BenchmarkCase, model: Architecture, task: Task, filled: Mapping[str, object], batch: Batch
) -> Callable[[], None]:
    autocast = partial(_autocast, case.variant.precision, batch.rows.device)
    if case.measure == "step":
        return _step(model, task, filled, batch, autocast)
    model.eval()

    def forward() -> None:
        with torch.no_grad(), autocast():
            model(**batch.inputs())

    def evaluation() -> None:
        with torch.no_grad(), autocast():
            task.loss(model, batch)

    return forward if case.measure == "forward" else evaluation


def _step(
    model: Architecture,
    task: Task,
    filled: Mapping[str, object],
    batch: Batch,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Callable[[], None]:
    optimizer = make(RunConfig(filled).optimizer)(model)
    clip = RunConfig(filled).gradient_clip
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    unit_weights = UnitWeights(model)

    def step() -> None:
        with autocast():
            loss = task.loss(model, batch).mean
        loss.backward()
        if clip is not None:
            clip_grad_norm_(parameters, clip)
        optimizer.step()
        unit_weights.normalise()
        optimizer.zero_grad()

    return step


def _timed(work: Callable[[], None], device: torch.device, seconds: float) -> Iterator[float]:
    """Warmed up twice: caches, allocators and compilers have done their part by then."""
    for _ in range(2):
        work()
    _wait(device)
    start = time.perf_counter()
    for repeat in range(MOST_REPEATS):
        before = time.perf_counter()
        work()
        _wait(device)
        now = time.perf_counter()
        yield now - before
        if repeat + 1 >= LEAST_REPEATS and now - start >= seconds:
            return


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _kernels(variant: Variant) -> AbstractContextManager[Any]:
    return sdpa_kernel(SDPBackend.MATH) if variant.attention == "explicit" else nullcontext()


def _autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    return Precision(precision).on(device.type).autocast(device.type)  # type: ignore[arg-type]


def _on(batch: Batch, device: torch.device, variant: Variant) -> Batch:
    moved = batch.to(device)
    if moved.images is None:
        return moved
    return replace(moved, images=moved.images.to(Precision(variant.precision).of_weights))


def _size(batch: Batch, *, all_scored: bool) -> InputSize:
    scored = None
    if batch.targets is not None and batch.targets.ndim == 2 and not all_scored:
        scored = int((batch.targets != IGNORED).sum()) // batch.num_samples
    return InputSize(
        length=0 if batch.tokens is None else batch.tokens.shape[1],
        decoder_length=0 if batch.decoder_tokens is None else batch.decoder_tokens.shape[1],
        scored=scored,
    )


def _num_tokens(model: Architecture, batch: Batch) -> int:
    """Return the number of tokens of one sample, both sides together."""
    return model.num_tokens(_size(batch, all_scored=True))


def _flops(model: Architecture, batch: Batch, measure: Measure) -> int:
    """A plain forward pass makes the logits of every token, a loss those that it reads."""
    totals = ledger(model, _size(batch, all_scored=measure == "forward")).totals
    per_sample = totals.training_flops_per_sample if measure == "step" else totals.forward_flops_per_sample
    return batch.num_samples * per_sample


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
    """Return the spec that data of this length would have."""
    if spec.image_shape is not None:
        side = image_side(length, patch)
        return replace(spec, image_shape=(spec.image_shape[0], side, side))
    return replace(spec, max_length=length, max_target_length=length if spec.max_target_length else 0)


def patch_of(config: Mapping[str, object]) -> int | None:
    """Return the side of a model's patches, where it cuts images into such."""
    patch: int | None = RunConfig(config).model.get("patch_size")
    return patch


def image_side(length: int, patch: int | None) -> int:
    """Return the side of the square image whose number of patches comes nearest to the length."""
    return max(1, round(math.sqrt(length))) * (patch or 1)


def _stretched(batch: Batch, names: tuple[str, ...], valid: str, length: int, with_targets: bool) -> Batch:
    tokens = getattr(batch, names[0])
    assert tokens is not None, "a batch has tokens or images"
    mask = getattr(batch, valid)
    lengths = mask.sum(1) if mask is not None else torch.full((len(tokens),), tokens.shape[1])
    positions = torch.arange(length) % lengths[:, None]
    changed: dict[str, Tensor | None] = {valid: None}
    for name in names:
        values = getattr(batch, name)
        changed[name] = None if values is None else values.gather(1, positions)
    if changed.get("segments") is not None:
        repeats = torch.arange(length) // lengths[:, None]
        changed["segments"] = changed["segments"] + repeats * (int(batch.segments.max()) + 1)  # type: ignore[union-attr]
    targets = batch.targets
    if with_targets and targets is not None:
        per_token = targets.shape == tokens.shape
        changed["targets"] = targets.gather(1, positions) if per_token else _within(targets, tokens, length)
    return replace(batch, **changed)  # type: ignore[arg-type]


def _within(targets: Tensor, tokens: Tensor, length: int) -> Tensor:
    """Labels stay as they are; places of an answer must lie in a row that was cut."""
    return targets.clamp(max=length - 1) if targets.ndim == 2 and length < tokens.shape[1] else targets


def _tiled(images: Tensor, side: int) -> Tensor:
    height, width = images.shape[2:]
    return images.repeat(1, 1, -(-side // height), -(-side // width))[:, :, :side, :side].contiguous()
