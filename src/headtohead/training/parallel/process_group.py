"""Count the processes that a launcher started for one run, and check that the run expects as many.

torchrun and srun tell each process its number. What srun started several times may also be several workers, or agents
of a W&B sweep, whose runs are of one process each: then the number says nothing about the run.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict
from typing import Any

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.utilities.rank_zero import rank_zero_only

from headtohead.errors import UsageError
from headtohead.files.process_liveness import Owner
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


_LOST_WORDS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo/transport", "NCCL error")
_PATIENCE = 2.0
"""Seconds until a process whose connection is gone is seen to have ended."""
_TIME_TO_END = 60.0
"""Seconds that the main process has to notice that another died, and to begin to write the record."""
_peers: list[Owner] = []
_ending = threading.Event()


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


def _dead() -> list[int]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        dead = [rank for rank, owner in enumerate(_peers) if owner.is_alive() is False]
        if dead or time.monotonic() > deadline:
            return dead
        time.sleep(_PATIENCE / 20)
