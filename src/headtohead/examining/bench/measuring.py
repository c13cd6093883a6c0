"""One case measured in a process of its own, so that no case inherits another's memory or is killed with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import clip_grad_norm_

from headtohead.architectures.contracts import Architecture, InputSize
from headtohead.architectures.costs import ledger
from headtohead.building.build import build_data, build_task, make_model
from headtohead.building.data_fit import fit
from headtohead.building.making import make
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.stack import Stack
from headtohead.data.batch import IGNORED, Batch
from headtohead.examining.bench.batches import batch_of_length, patch_of, spec_of_length
from headtohead.examining.bench.plan import Case, Measure, Variant
from headtohead.tasks.contracts import Task
from headtohead.training.compiling import compile_features
from headtohead.training.devices import threads
from headtohead.training.memory import PeakMemory
from headtohead.training.precision import Precision

LEAST_REPEATS, MOST_REPEATS = 3, 50
_AUTOCAST = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}

Status = Literal["measured", "out_of_memory", "failed", "left_out"]


@dataclass(frozen=True)
class Measurement:
    """What one process found out about one case."""

    case: Case
    status: Status = "measured"
    reason: str = ""
    length: int = 0
    """Tokens or patches that a row really had."""
    seconds: float = 0.0
    """Median over the repeats."""
    peak_bytes: int = 0
    """The most memory held at once, beyond what the process held before the model was made."""
    tokens: int = 0
    """Of the batch, both sides together."""
    flops: int = 0
    """The model's own for this work: forward, or forward and backward."""


def measure(config: Mapping[str, Any], case: Case, *, seconds: float) -> Measurement:
    """Builds data, model and optimizer for the case, does the work until `seconds` have passed."""
    device = _device(config)
    with threads(config["trainer"].get("threads")):
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
        return Measurement(
            case,
            length=_num_tokens(model, batch) - _size(batch, all_scored=True).decoder_length,
            seconds=sorted(taken)[len(taken) // 2],
            peak_bytes=peak.read() - before,
            tokens=_num_tokens(model, batch) * batch.num_samples,
            flops=_flops(model, batch, case.measure),
        )


def _device(config: Mapping[str, Any]) -> torch.device:
    on_gpu = config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if on_gpu else "cpu")


def _model(filled: Mapping[str, Any], variant: Variant, device: torch.device) -> Architecture:
    model = make_model(filled).to(device, Precision(variant.precision).of_weights)
    for module in model.modules():
        if isinstance(module, Stack):
            module.checkpointing = Checkpointing(variant.checkpointing)
    if variant.compile:
        compile_features(model)
    return model


def _work(case: Case, model: Architecture, task: Task, filled: Mapping[str, Any], batch: Batch) -> Callable[[], None]:
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
    filled: Mapping[str, Any],
    batch: Batch,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Callable[[], None]:
    optimizer = make(filled["optimizer"])(model)
    clip = filled["trainer"].get("gradient_clip")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def step() -> None:
        with autocast():
            loss = task.loss(model, batch).mean
        loss.backward()
        if clip is not None:
            clip_grad_norm_(parameters, clip)
        optimizer.step()
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
    dtype = _AUTOCAST.get(Precision(precision).on(device.type).name)  # type: ignore[arg-type]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


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
    """Of one sample, both sides together."""
    return model.num_tokens(_size(batch, all_scored=True))


def _flops(model: Architecture, batch: Batch, measure: Measure) -> int:
    """A plain forward pass makes the logits of every token, a loss those that it reads."""
    totals = ledger(model, _size(batch, all_scored=measure == "forward")).totals
    per_sample = totals.training_flops_per_sample if measure == "step" else totals.forward_flops_per_sample
    return batch.num_samples * per_sample
