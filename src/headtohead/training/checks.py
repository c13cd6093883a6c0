"""Refuse, in one sentence, runs that cannot be trained as configured."""

from __future__ import annotations

import torch
from torch.optim import Optimizer

from headtohead.architectures.architecture import Architecture
from headtohead.components.block_parts import Norm
from headtohead.components.component import Component
from headtohead.components.stack import Stack
from headtohead.components.training_hooks import parts_with_losses
from headtohead.errors import UsageError
from headtohead.training.initial_weights import start_from
from headtohead.training.loop.precision import Precision
from headtohead.training.optim.schedule_free import ScheduleFree
from headtohead.training.optim.soap import Soap
from headtohead.training.parallel.sharding import check_tensor_parallel_plans
from headtohead.training.run_components import RunComponents, TrainerSettings


def check_settings(parts: RunComponents) -> None:
    settings = parts.settings
    if settings.max_steps < 0:
        raise UsageError(f"trainer.max_steps={settings.max_steps}: give 1 or more, or 0 to evaluate without training")
    if settings.max_epochs is not None:
        raise UsageError(f"Settings(max_epochs={settings.max_epochs}) is for configurations: give max_steps")
    for name in ("devices", "num_nodes", "accumulate", "log_every", "validate_every", "tensor_parallel"):
        _at_least_one(name, getattr(settings, name))
    for name in ("validation_batches", "patience"):
        if getattr(settings, name) is not None:
            _at_least_one(name, getattr(settings, name))
    if settings.gradient_clip is not None and settings.gradient_clip <= 0:
        raise UsageError(f"trainer.gradient_clip={settings.gradient_clip}: give a norm above 0, or null for none")
    if settings.weight_averaging is not None and not 0 < settings.weight_averaging < 1:
        raise UsageError(f"trainer.weight_averaging={settings.weight_averaging}: give a decay such as 0.999, or null")
    if settings.accelerator == "gpu" and not torch.cuda.is_available():
        raise UsageError("trainer.accelerator=gpu, and torch sees no GPU here: use trainer=auto or trainer=cpu")
    _check_devices(settings)
    smallest = settings.num_replicas * settings.accumulate
    if parts.data.batch_size < smallest:
        raise UsageError(
            f"data.batch_size={parts.data.batch_size} cannot be split over {settings.num_replicas} devices in "
            f"trainer.accumulate={settings.accumulate} parts each: give {smallest} or more"
        )


def check_optimizer(optimizer: Optimizer, settings: TrainerSettings, *, has_unit_weights: bool) -> None:
    """Refuse optimizers that need whole weights, or evaluate an average, where the run does not allow it."""
    name = type(optimizer).__name__
    if not isinstance(optimizer, Soap | ScheduleFree):
        return
    if settings.strategy == "model_parallel":
        raise UsageError(
            f"optimizer: {name} reads whole weights, which trainer.strategy=model_parallel shards or divides: use "
            "trainer=ddp, or optimizer=adamw"
        )
    if isinstance(optimizer, ScheduleFree) and settings.weight_averaging is not None:
        raise UsageError(
            f"trainer.weight_averaging={settings.weight_averaging} beside {name} makes two averages, and one is "
            "evaluated: set it to null"
        )
    if isinstance(optimizer, ScheduleFree) and has_unit_weights:
        raise UsageError(f"optimizer: averages of {name} are shorter than 1, and vectors of unit_weights must not be")


def check_start(parts: RunComponents) -> None:
    """Refuse weights to start from that do not fit the model, before the run has a folder."""
    identity = parts.identity
    if parts.make_shapes is not None and identity.init_from is not None and identity.resume_from is None:
        start_from(parts.make_shapes(), identity.init_from, class_names=parts.data.spec().class_names)


def check_model(model: Architecture, settings: TrainerSettings, precision: Precision) -> None:
    """Batch statistics are of what one device sees at once, so that splitting a batch would change the result."""
    if settings.tensor_parallel > 1:
        check_tensor_parallel_plans(model, settings.tensor_parallel)
    if settings.strategy == "model_parallel" and any(
        isinstance(module, Stack) and module.loops > 1 for module in model.modules()
    ):
        raise UsageError(
            "model.loops passes each layer several times, and trainer.strategy=model_parallel gathers its weights for "
            "one pass: set it to 1, or use trainer=ddp"
        )
    if settings.strategy == "model_parallel" and settings.num_replicas > 1 and precision.name == "bf16-true":
        _check_one_format(model)
    for name, part in parts_with_losses(model):
        if settings.accumulate > 1 and part.takes_statistics and part.balance == "batch":
            raise UsageError(
                f"{name} ({type(part).__name__}) takes shares over the batch of a step, of which trainer.accumulate="
                f"{settings.accumulate} shows it a part at a time: use 1, or balance=micro_batch, which takes them "
                "over each part and trains something else"
            )
    if not any(isinstance(module, Norm) and module.keeps_statistics for module in model.modules()):
        return
    if settings.strategy != "single":
        raise UsageError(
            "model/norm=batch_norm takes its statistics over one device's share of a batch, so "
            f"trainer.strategy={settings.strategy} would change what is trained: use one device, or another norm"
        )
    if settings.accumulate > 1:
        raise UsageError(
            f"model/norm=batch_norm takes its statistics over one part of a batch, so trainer.accumulate="
            f"{settings.accumulate} would change what is trained: use 1, or another norm"
        )


def _check_one_format(model: Architecture) -> None:
    """Torch shards the weights of a layer together, in one number format."""
    for path, module in model.named_modules():
        if isinstance(module, Component) and module.float32_parameters:
            raise UsageError(
                f"precision=bf16-true leaves {', '.join(module.float32_parameters)} of {path} "
                f"({type(module).__name__}) in float32, and trainer.strategy=model_parallel shards weights of one "
                "format: use precision=bf16-mixed, or trainer=ddp"
            )


def _check_devices(settings: TrainerSettings) -> None:
    devices = settings.devices * settings.num_nodes
    if devices % settings.tensor_parallel:
        raise UsageError(
            f"trainer.tensor_parallel={settings.tensor_parallel} does not divide trainer.devices={devices}: each copy "
            "of the model takes as many devices as divide it"
        )
    if settings.tensor_parallel > 1 and settings.strategy != "model_parallel":
        raise UsageError(
            f"trainer.tensor_parallel={settings.tensor_parallel} needs trainer=tensor_parallel or trainer=fsdp, not "
            f"trainer.strategy={settings.strategy}"
        )
    if settings.strategy == "model_parallel" and not _has_resharding():
        raise UsageError("trainer.strategy=model_parallel needs a newer torch: upgrade it, or use trainer=ddp")
    if settings.strategy == "model_parallel" and settings.weight_averaging is not None:
        raise UsageError(
            f"trainer.weight_averaging={settings.weight_averaging} keeps a copy of all weights, which "
            "trainer.strategy=model_parallel spreads over devices: set it to null, or use trainer=ddp"
        )
    if settings.strategy == "single" and settings.devices * settings.num_nodes > 1:
        raise UsageError(
            f"trainer.devices={settings.devices} needs trainer=ddp: trainer.strategy=single trains on one device"
        )
    gpus = torch.cuda.device_count()
    if settings.accelerator != "cpu" and torch.cuda.is_available() and settings.devices > gpus:
        raise UsageError(f"trainer.devices={settings.devices}, and torch sees {gpus} here: lower it")


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"trainer.{name}={value}: give 1 or more")


def _has_resharding() -> bool:
    from torch.distributed.fsdp import FSDPModule  # imported where a run has several devices: most of a second

    return hasattr(FSDPModule, "set_reshard_after_forward")  # from torch 2.8
