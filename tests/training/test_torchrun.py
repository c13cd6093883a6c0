"""Two nodes that torchrun starts, both on 127.0.0.1, train one run: one record, one run on W&B's server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from headtohead.records.run_folder import RunFolder, scan
from waiting import PATIENCE
from wandb_server import WandbServer
from wandb_trainings import STEPS, TINY


def torchrun(node: int, port: int, home: Path, account: Mapping[str, str]) -> subprocess.Popen[str]:
    position = ("--nnodes=2", "--nproc_per_node=1", f"--node_rank={node}", "--master_addr=127.0.0.1")
    run = ("train", *TINY, "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1", "trainer.num_nodes=2")
    saved = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *position, f"--master_port={port}", "-m", "headtohead", *run,
         "--resumable"],
        cwd=home,
        env={**saved, "HEADTOHEAD_CACHE": str(home / "cache"), "NETRC": str(home / "no-netrc"), **account},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


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
        message = [node.communicate(timeout=PATIENCE)[0] for node in nodes]
        assert [node.returncode for node in nodes] == [0, 0], message
        (record,) = scan(tmp_path / "outputs")
        assert record.status == "finished" and record.environment.device["count"] == 2
        assert "finished" in message[0] and "record:" in message[0] and "record:" not in message[1]
        assert list(server.runs) == [record.wandb.id] and server.unknown == []
        steps = list(range(1, STEPS + 1))
        assert server.runs[record.wandb.id].steps("train/loss") == steps
        assert record.path is not None and RunFolder(record.path).metrics()["train/loss"].step == steps
    finally:
        server.close()
