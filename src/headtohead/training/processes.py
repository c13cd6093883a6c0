"""How many processes a launcher started for one run, and whether that is how many the run is for.

torchrun and srun tell each process its number. What srun started several times may also be several workers, or agents
of a W&B sweep, whose runs are of one process each: then the number says nothing about the run.
"""

from __future__ import annotations

import os

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.utilities.rank_zero import rank_zero_only

from headtohead.errors import UsageError
from headtohead.training.parts import Settings


def take_part(settings: Settings) -> None:
    """Raises ValueError where a launcher's processes are not those of the run; a run of one process is nobody's part,
    whatever number srun gave that process."""
    wanted = settings.devices * settings.num_nodes
    launcher, started = _started()
    if launcher == "torchrun" or (launcher is not None and wanted > 1):
        _check(launcher, started, settings)
    if wanted == 1 and not {"RANK", "LOCAL_RANK"} & os.environ.keys():  # those of torchrun and Lightning
        rank_zero_only.rank = 0  # type: ignore[attr-defined]


def environments(settings: Settings) -> list[ClusterEnvironment]:
    """Of a run of one process: Lightning looks for no other. Several find each other by whoever started them."""
    return [LightningEnvironment()] if settings.devices * settings.num_nodes == 1 else []


def _check(launcher: str, started: int, settings: Settings) -> None:
    if started != settings.devices * settings.num_nodes:
        raise UsageError(
            f"{launcher} started {started} {'process' if started == 1 else 'processes'}, and the run is of "
            f"trainer.devices={settings.devices} x trainer.num_nodes={settings.num_nodes}: give trainer=ddp (or fsdp), "
            "trainer.devices=PROCESSES_OF_A_NODE and trainer.num_nodes=NODES"
        )


def _started() -> tuple[str | None, int]:
    """By whom, and how many; Lightning starts the others itself where nobody did."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun", int(os.environ["WORLD_SIZE"])
    steps = os.environ.get("SLURM_STEP_NUM_TASKS")
    return ("srun", int(steps)) if steps is not None else (None, 1)
