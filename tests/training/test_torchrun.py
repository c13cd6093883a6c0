"""Two nodes that torchrun starts, both on 127.0.0.1, train one run: one record, one run on W&B's server."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch.distributed.run

from headtohead.records.run_folder import RunFolder, scan
from waiting import PATIENCE
from wandb_server import WandbServer
from wandb_trainings import STEPS, TINY, environment
from warm_commands import WarmCommand


def torchrun(node: int, port: int, home: Path, account: Mapping[str, str]) -> WarmCommand:
    rendezvous = ("--nnodes=2", "--nproc_per_node=1", f"--node_rank={node}", "--master_addr=127.0.0.1")
    run = ("train", *TINY, "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1", "trainer.num_nodes=2")
    return WarmCommand(
        [*rendezvous, f"--master_port={port}", "-m", "headtohead", *run, "--resumable"],
        program=Path(torch.distributed.run.__file__),
        output=home / f"output{node}",
        folder=home,
        environment=environment(home, account),
    )


def free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


@pytest.mark.slow
@pytest.mark.process
def test_two_nodes_of_torchrun_make_one_record_and_one_run_of_wandb(tmp_path: Path) -> None:
    server, port = WandbServer(), free_port()
    try:
        nodes = [torchrun(node, port, tmp_path, server.environment) for node in (0, 1)]
        codes = [node.wait(PATIENCE) for node in nodes]
        message = [(tmp_path / f"output{node}").read_text() for node in (0, 1)]
        assert codes == [0, 0], message
        (record,) = scan(tmp_path / "outputs")
        assert record.status == "finished" and record.environment.device["count"] == 2
        assert "finished" in message[0] and "record:" in message[0] and "record:" not in message[1]
        assert list(server.runs) == [record.wandb.id] and server.unknown == []
        steps = list(range(1, STEPS + 1))
        assert server.runs[record.wandb.id].steps("train/loss") == steps
        assert record.path is not None and RunFolder(record.path).metrics()["train/loss"].step == steps
    finally:
        server.close()
