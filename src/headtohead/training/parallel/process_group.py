"""The processes of one run: count those that a launcher started, check that the run expects as many, and exchange
values between them.

torchrun and srun tell each process its number. What srun started several times may also be several workers, or agents
of a W&B sweep, whose runs are of one process each: then the number says nothing about the run.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.utilities.rank_zero import rank_zero_only
from pytorch_lightning import Trainer
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor
from torch.distributed import ProcessGroup

from headtohead.errors import UsageError
from headtohead.files.process_liveness import Owner
from headtohead.training.parallel.sharding import REPLICAS
from headtohead.training.run_components import TrainerSettings


def join_process_group(settings: TrainerSettings) -> None:
    """Raises ValueError where a launcher's processes are not those of the run; a run of one process is nobody's part,
    whatever number srun gave that process."""
    expected = settings.devices * settings.num_nodes
    launcher, started = _started()
    if launcher == "torchrun" or (launcher is not None and expected > 1):
        _check(launcher, started, settings)
    if expected == 1 and not {"RANK", "LOCAL_RANK"} & os.environ.keys():  # those of torchrun and Lightning
        rank_zero_only.rank = 0  # type: ignore[attr-defined]
    if expected > 1 and launcher is None:
        _end_with_the_first_process()


def environments(settings: TrainerSettings) -> list[ClusterEnvironment]:
    """Return the environment for a run of one process, so that Lightning looks for no other; several processes find
    each other through their launcher."""
    return [LightningEnvironment()] if settings.devices * settings.num_nodes == 1 else []


def _check(launcher: str, started: int, settings: TrainerSettings) -> None:
    if started != settings.devices * settings.num_nodes:
        raise UsageError(
            f"{launcher} started {started} {'process' if started == 1 else 'processes'}, and the run is of "
            f"trainer.devices={settings.devices} x trainer.num_nodes={settings.num_nodes}: give trainer=ddp (or fsdp), "
            "trainer.devices=PROCESSES_OF_A_NODE and trainer.num_nodes=NODES"
        )


def _started() -> tuple[str | None, int]:
    """Return who started the processes, and how many; Lightning starts the others itself if nobody did."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun", int(os.environ["WORLD_SIZE"])
    steps = os.environ.get("SLURM_STEP_NUM_TASKS")
    return ("srun", int(steps)) if steps is not None else (None, 1)


_log = logging.getLogger(__name__)
_LOST_WORDS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo/transport", "NCCL error")
_PATIENCE = 2.0
"""Seconds until a process whose connection is gone is seen to have ended."""
_TIME_TO_END = 60.0
"""Seconds that the main process has to notice that another died, and to begin to write the record."""
_FIRST_PROCESS = "HEADTOHEAD_FIRST_PROCESS"
"""The environment variable that tells the processes that Lightning starts which process they belong to."""
_peers: list[Owner] = []
_ending = threading.Event()
_in_run = threading.Event()


def register_process(store: Any, rank: int, size: int) -> None:
    """Learn which processes the others are; all of them must call it."""
    store.set(f"owner_{rank}", json.dumps(asdict(Owner.this_process())))
    _peers[:] = [Owner(**json.loads(store.get(f"owner_{other}"))) for other in range(size)]
    _stop_lightning_from_killing()


def lost_process(error: BaseException) -> str | None:
    """Say in a sentence which process has died, where an error says that the connection to one is gone."""
    if len(_peers) < 2 or not isinstance(error, RuntimeError) or not any(words in str(error) for words in _LOST_WORDS):
        return None
    _ending.set()
    dead = _dead()
    if not dead:
        return f"the connection to another of the run's {len(_peers)} processes is lost: resume the run"
    named = " and ".join(f"{rank} (pid {_peers[rank].pid})" for rank in dead)
    return (
        f"of the run's {len(_peers)} processes, rank {named} died: killed, out of the machine's memory, or by an error "
        "that its own output shows; resume the run"
    )


def _stop_lightning_from_killing() -> None:
    """Keep Lightning from killing this process within five seconds of the death of another: the lost connection is
    noticed at the next exchange, and the record is written then. A process that hangs is killed after a minute."""
    _ending.clear()
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            kill = vars(thread).setdefault("kill_all", thread._terminate_all)  # type: ignore[attr-defined]
            vars(thread)["_terminate_all"] = lambda kill=kill: _ending.wait(_TIME_TO_END) or kill()


def _end_with_the_first_process() -> None:
    """Have the processes that Lightning starts on a machine end where the one that started them dies. Before they have
    met, nothing else would: each would wait half an hour for the store of a process that is gone."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        os.environ[_FIRST_PROCESS] = json.dumps(asdict(Owner.this_process()))
    elif _FIRST_PROCESS in os.environ:
        first = Owner(**json.loads(os.environ[_FIRST_PROCESS]))
        _watch(first)


@cache
def _watch(first: Owner) -> None:
    threading.Thread(target=_end_after, args=(first,), name="first-process-observer", daemon=True).start()


def _end_after(first: Owner) -> None:
    """End this process once the first is gone and a run is on; what a program does beside its runs is its own."""
    while first.is_alive() is not False or not _in_run.is_set():
        time.sleep(_PATIENCE / 2)
    if _peers:  # they have met: the next exchange notices the lost connection and says more
        time.sleep(_TIME_TO_END)
    _log.error("the run's first process (pid %d) died: resume the run", first.pid)
    os._exit(1)


def _dead() -> list[int]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        dead = [rank for rank, owner in enumerate(_peers) if owner.is_alive() is False]
        if dead or time.monotonic() > deadline:
            return dead
        time.sleep(_PATIENCE / 20)


def is_main_process() -> bool:
    """Return whether this process writes the record; this is known before the processes have connected."""
    return (getattr(rank_zero_only, "rank", None) or 0) == 0


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


@dataclass(frozen=True)
class Replicas:
    """The copies of the model, each with its share of every batch; devices that divide a copy's layers read the same
    share and count once."""

    rank: int = 0
    size: int = 1
    group: ProcessGroup | None = None
    """One device of each copy; None means all devices."""

    def summed(self, tensor: Tensor) -> Tensor:
        """Return the value summed over all copies."""
        if is_distributed():
            tensor = tensor.clone()
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def gathered(self, counts: Tensor) -> Tensor:
        """Return the counts of all copies in their order, along a new first dimension."""
        if not is_distributed():
            return counts[None]
        of_each = [torch.empty_like(counts) for _ in range(self.size)]
        dist.all_gather(of_each, counts.contiguous(), group=self.group)
        return torch.stack(of_each)

    def sums(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Return each number summed over all copies, exactly for whole numbers."""
        if not is_distributed():
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(tensor, group=self.group)
        return tensor.tolist()


def replicas_of(trainer: Trainer) -> Replicas:
    """Known once the processes have met."""
    if not isinstance(trainer.strategy, ModelParallelStrategy):
        return Replicas(trainer.global_rank, trainer.world_size)
    mesh = trainer.strategy.device_mesh[REPLICAS]
    return Replicas(mesh.get_local_rank(), mesh.size(), mesh.get_group())


def joined(heads: Tensor, group: ProcessGroup, device: torch.device) -> Tensor:
    """[B, H, ...] with the heads of every process of the group, in their order."""
    own = heads.to(device).contiguous()
    of_each = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(of_each, own, group=group)
    return torch.cat(of_each, dim=1).cpu()


def largest(values: Sequence[float], device: torch.device) -> list[float]:
    """Return the maximum of each number over all processes."""
    if not is_distributed():
        return list(values)
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


@contextmanager
def own_process_group() -> Iterator[None]:
    """The processes part when a run ends, so that a later run of one device is not taken for one of several."""
    joined_before = is_distributed()
    _in_run.set()
    try:
        yield
    finally:
        _in_run.clear()
        if is_distributed() and not joined_before:
            dist.destroy_process_group()
