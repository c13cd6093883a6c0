"""A real `h2h train` that is logged in to a healthy W&B server: what arrives is the run, and nothing but the run."""

from __future__ import annotations

import math
import socket
from pathlib import Path
from typing import Any

import pytest

from wandb_server import WandbServer
from wandb_trainings import STEPS, Training, train

AXES = {"step": "trainer/global_step", "epoch": "progress/epoch", "tokens": "progress/tokens"}
AXES |= {"flops": "progress/flops", "seconds": "progress/seconds"}


PLANTED = {"SOME_SECRET": "do-not-send-me", "MY_API_KEY": "nor-this-key", "USER": "ada-l", "LOGNAME": "ada-l"}
HOST = "host-of-ada"


def named_host(home: Path) -> dict[str, str]:
    """A machine of that name, as Python tells it."""
    home.mkdir()
    (home / "sitecustomize.py").write_text(f"import socket\nsocket.gethostname = lambda: {HOST!r}\n")
    return {"PYTHONPATH": str(home)}


def arrived(server: WandbServer) -> dict[tuple[int, str], Any]:
    """Every number by step and name, in the order of arrival."""
    (run,) = server.runs.values()
    return {
        (row["trainer/global_step"], name): value
        for row in run.history
        for name, value in row.items()
        if not name.startswith("_") and name not in AXES.values() and not isinstance(value, dict)
    }


def recorded(training: Training) -> dict[tuple[int, str], float]:
    rows = training.folder.metrics_file.rows()
    return {(row.progress.step, name): value for row in rows for name, value in row.values.items()}


def without_empty(config: dict[str, Any]) -> dict[str, Any]:
    """W&B's client leaves out mappings in which nothing stands."""
    nested = {name: without_empty(value) if isinstance(value, dict) else value for name, value in config.items()}
    return {name: value for name, value in nested.items() if value != {}}


@pytest.mark.process
def test_a_run_arrives_as_its_record_tells_it(tmp_path: Path, server: WandbServer) -> None:
    home = tmp_path / "somebody"
    account = {**server.environment, **PLANTED, **named_host(home)}
    artifacts = "tracking.artifacts=[record,checkpoint]"
    typed = ("group=idea", "tags=[mine]", f"output_dir={home}/outputs", "optimizer.lr=1e-5", artifacts)
    training = train(home, account, *typed, options=())

    assert training.exit_code == 0, training.message
    assert training.message.count("W&B is online") == 1
    record, (run,) = training.record, server.runs.values()
    assert (record.wandb.mode, record.wandb.url) == ("online", f"{server.url}/me/headtohead/runs/{record.wandb.id}")
    assert (run.exit_code, run.summary["status"]) == (0, "finished")

    sent, message = arrived(server), recorded(training)
    assert [step for step, name in sent if name == "train/loss"] == list(range(1, STEPS + 1))
    assert sent.keys() == message.keys()
    assert all(math.isclose(sent[key], message[key], rel_tol=1e-6) for key in message)
    assert len(run.history) == len({row["_step"] for row in run.history})
    assert run.summary["test/loss"] == record.metrics["test"]["loss"]
    assert run.summary["validation/loss"] == record.metrics["validation"]["loss"]
    validated = [value for (_, name), value in message.items() if name == "validation/loss"]
    assert (run.summary["min/validation/loss"], run.summary["last/validation/loss"]) == (min(validated), validated[-1])
    assert run.summary["costs/parameters"] == record.costs["totals"]["parameters"]

    assert run.axes == {**dict.fromkeys(AXES.values()), "*": "trainer/global_step"}
    assert all(axis in row for row in run.history for axis in AXES.values())

    config = run.config
    assert config.pop("environment")["packages"] == record.environment.packages
    assert config.pop("arm") == record.arm
    assert config.pop("content_hash") == record.content_hash
    assert config == without_empty({**record.config, "output_dir": "~/outputs"})
    assert config["model"]["mixer"]["_target_"].endswith("SoftmaxAttention")
    assert config["optimizer"]["lr"] == 1e-5
    assert (run.first["groupName"], run.first["jobType"]) == ("idea", "train")
    parts = ["decoder_only", "softmax_attention", "rotary", "layer_norm"]
    assert run.first["tags"] == ["mine", *parts, f"content-{record.content_hash}"]

    checkpoint = run.files[f"artifacts/checkpoint-{record.wandb.id}/best.ckpt"]
    assert checkpoint == (training.folder.checkpoints / "best.ckpt").read_bytes()
    sent_record = run.files[f"artifacts/record-{record.wandb.id}/record.json"]
    assert sent_record.count(b"~/outputs") == 2, "output_dir, and the folder that the run on W&B is of"
    everything = b"".join([*server.bodies, *(path.encode() for path in server.requested)])
    private = [str(home), server.environment["WANDB_API_KEY"], *PLANTED.values(), HOST, f'"{socket.gethostname()}"']
    assert [word for word in private if word.encode() in everything] == []


@pytest.mark.slow
@pytest.mark.process
def test_processes_that_train_together_make_one_run(tmp_path: Path, server: WandbServer) -> None:
    together = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
    training = train(tmp_path, server.environment, *together)

    assert training.exit_code == 0, training.message
    assert list(server.runs) == [training.record.wandb.id]
    (run,) = server.runs.values()
    assert run.steps("train/loss") == list(range(1, STEPS + 1))
    assert arrived(server).keys() == recorded(training).keys()
    assert (run.exit_code, run.summary["status"]) == (0, "finished")
    assert len([path for path in server.requested if path.startswith("/graphql")]) < 12
