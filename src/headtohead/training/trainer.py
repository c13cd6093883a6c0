"""Lightning's Trainer, made to do one thing: our loop on the devices and in the precision that were requested."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.strategies import Strategy
from typing_extensions import override

from headtohead.training.checkpoints import load, save
from headtohead.training.loop.precision import Precision
from headtohead.training.parallel.devices import device_for
from headtohead.training.parallel.process_group import environments
from headtohead.training.parallel.strategies import ReplicatedStrategy, ShardedStrategy
from headtohead.training.run_components import TrainerSettings
from headtohead.training.run_logger import RunLogger

_NOISE = (
    "The .*dataloader.* does not have many workers",
    "GPU available but not used",
    "`isinstance.treespec, LeafSpec.` is deprecated",
    "Found .* module.s. in eval mode at the start of training",
    ".*max_epochs. was not set",
    "Trying to infer the `batch_size` from an ambiguous collection",
)
_NOISY_LOGGERS = ("pytorch_lightning", "lightning_fabric", "lightning.pytorch", "lightning.fabric")


class AtomicCheckpoints(TorchCheckpointIO):
    """A file is whole or not there; only tensors and plain values are ever read back."""

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        save(checkpoint, Path(path))

    @override
    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return load(Path(path))


def device_of(settings: TrainerSettings) -> torch.device:
    """The kind of device that the run will use, before any trainer exists."""
    return device_for(settings.accelerator)


def make_trainer(
    settings: TrainerSettings, precision: Precision, *, logger: RunLogger, callbacks: Sequence[Callback], folder: Path
) -> Trainer:
    """A trainer that neither shows, saves nor selects anything by itself; steps and stops are the callbacks' matter."""
    device = device_of(settings)
    return Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=settings.devices,
        num_nodes=settings.num_nodes,
        strategy=_strategy(settings, "gloo" if device.type == "cpu" else "nccl"),
        precision=precision.name,
        logger=logger,
        callbacks=list(callbacks),
        plugins=[AtomicCheckpoints(), *environments(settings)],
        max_epochs=-1,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic=settings.deterministic,
        inference_mode=False,  # averaged weights move in and out during a validation, and train on after it
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def _strategy(settings: TrainerSettings, backend: str) -> Strategy | str:
    if settings.strategy == "ddp":
        return ReplicatedStrategy(process_group_backend=backend)
    if settings.strategy == "model_parallel":
        return ShardedStrategy(
            data_parallel_size=settings.num_replicas,
            tensor_parallel_size=settings.tensor_parallel,
            save_distributed_checkpoint=False,
            process_group_backend=backend,
        )
    return "auto"


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence tips, banners, "GPU available" lines and advice on loaders that are fast enough."""
    loggers = [logging.getLogger(name) for name in _NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    deterministic = torch.are_deterministic_algorithms_enabled()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for pattern in _NOISE:
                warnings.filterwarnings("ignore", message=pattern)
            yield
    finally:
        torch.use_deterministic_algorithms(deterministic)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
