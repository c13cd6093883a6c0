"""Lightning's Trainer, made to do one thing: our loop on the devices, under the strategy and in the precision that were
requested. Its logger writes numbers to the record's metrics and to W&B; checkpoints do not tell how many devices there
were."""

from __future__ import annotations

import itertools
import logging
import os
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor
from torch.distributed.rendezvous import rendezvous
from torch.optim import Optimizer
from typing_extensions import override

from headtohead.metrics.metric import MetricTable
from headtohead.records.record import Progress
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import load, save
from headtohead.training.loop.precision import Precision
from headtohead.training.parallel.devices import device_for
from headtohead.training.parallel.process_group import environments, register_process
from headtohead.training.parallel.sharding import divided, gathered, load_whole, whole_state
from headtohead.training.run_components import TrainerSettings
from headtohead.wandb_client.tracker import Tracker

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


_NUM_INITIALISATIONS = itertools.count()


class ReplicatedStrategy(DDPStrategy):
    """A copy of the model on every device."""

    @override
    def setup_environment(self) -> None:
        _init_process_group(self)
        super().setup_environment()


class ShardedStrategy(ModelParallelStrategy):
    """A model in parts. State is put together before it is saved and divided after it was read: a run resumes on any
    number of devices."""

    @override
    def setup_environment(self) -> None:
        _init_process_group(self)
        super().setup_environment()

    @property
    @override
    def lightning_restore_optimizer(self) -> bool:
        return True

    @override
    def lightning_module_state_dict(self) -> dict[str, Any]:
        assert self.lightning_module is not None
        return {name: tensor.cpu() for name, tensor in whole_state(self.lightning_module).items()}

    @override
    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert strict and self.lightning_module is not None
        load_whole(self.lightning_module, checkpoint["state_dict"])

    @override
    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        state = optimizer.state_dict()
        return {**state, "state": {index: _whole_values(values) for index, values in state["state"].items()}}

    @override
    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            indices = [index for group in saved["param_groups"] for index in group["params"]]
            by_index = dict(zip(indices, weights, strict=True))
            state = {index: _divided_values(values, by_index[index]) for index, values in saved["state"].items()}
            optimizer.load_state_dict({**saved, "state": state})

    @override
    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        del weights_only
        torch.cuda.empty_cache()
        return self.checkpoint_io.load_checkpoint(self.broadcast(checkpoint_path))


def _init_process_group(strategy: ReplicatedStrategy | ShardedStrategy) -> None:
    """Have the processes of a run find each other under a name of its own, in the store that they meet in for good."""
    if dist.is_initialized():
        return
    environment = strategy.cluster_environment
    assert environment is not None
    strategy.set_world_ranks()
    rank, size = environment.global_rank(), environment.world_size()
    shared = _store(environment.main_address, environment.main_port, rank, size)
    store = dist.PrefixStore(f"run_{next(_NUM_INITIALISATIONS)}", shared)  # type: ignore[attr-defined]
    register_process(store, rank, size)
    dist.init_process_group(
        strategy.process_group_backend,
        store=store,
        rank=rank,
        world_size=size,
        device_id=None if strategy.root_device.type == "cpu" else strategy.root_device,
    )


@cache
def _store(address: str, port: int, rank: int, size: int) -> Any:
    """Open the store of these processes once for all their runs. Were it closed between two, a process that is ahead
    would still find the old one open, join it, and lose it."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = address, str(port)
    store, _, _ = next(rendezvous("env://", rank=rank, world_size=size))
    return store


def _whole_values(state: Mapping[str, object]) -> dict[str, Any]:
    return {name: gathered(value).cpu() if isinstance(value, Tensor) else value for name, value in state.items()}


def _divided_values(state: Mapping[str, object], weight: Tensor) -> dict[str, Any]:
    """Place what an optimizer stores for each element of a weight on the device of that element."""
    return {
        name: divided(value, weight) if isinstance(value, Tensor) and value.shape == weight.shape else value
        for name, value in state.items()
    }


class RunLogger(Logger):
    """Writes on the main process only; the others hold no folder."""

    def __init__(self, folder: RunFolder | None, tracker: Tracker | None) -> None:
        super().__init__()
        self._folder, self._tracker = folder, tracker
        self._progress = Progress()

    @property
    def name(self) -> str:
        return "" if self._folder is None else self._folder.path.parent.name

    @property
    def version(self) -> str:
        return "" if self._folder is None else self._folder.id

    def write(self, progress: Progress, values: Mapping[str, float]) -> None:
        self._progress = progress
        if self._folder is not None and self._tracker is not None:
            self._folder.log(progress, values)
            self._tracker.log(progress, values)

    def write_pictures(self, progress: Progress, pictures: Mapping[str, object]) -> None:
        """Write pictures to W&B only: the caller saves the files itself."""
        if self._tracker is not None:
            self._tracker.images(progress, pictures)

    def write_tables(self, progress: Progress, tables: Mapping[str, MetricTable]) -> None:
        """Write tables to W&B only, for the same reason."""
        if self._tracker is not None:
            self._tracker.tables(progress, tables)

    def check_lease(self) -> None:
        """Raise LeaseLostError where another process has taken over the run."""
        if self._folder is not None:
            self._folder.check_lease()

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log what a module logs through Lightning itself."""
        self.write(self._progress if step is None else replace(self._progress, step=step), metrics)

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """The record holds the whole configuration already."""
