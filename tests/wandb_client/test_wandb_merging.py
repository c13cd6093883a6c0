"""`h2h compare` over folders and W&B at once: a run counts once, and the record on disk is believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.records.record import Comparability, RunRecord, StudyPosition, WandbLink, to_json
from headtohead.wandb_client.runs_as_records import summary_of
from wandb_server import ServedRun, WandbServer


def record_of(
    arm: str, seed: int, loss: float, *, wandb_id: str | None = None, content: str | None = None
) -> RunRecord:
    return RunRecord(
        id=f"{arm}-{seed}",
        name=f"{arm}-s{seed}",
        status="finished",
        place=StudyPosition("recall", arm, seed),
        metrics={"validation": {"loss": loss + 1}, "test": {"loss": loss}},
        comparability=Comparability(tokenizer="char", loss_normalisation="mean"),
        wandb=WandbLink(wandb_id),
        content_hash=content,
    )


def on_disk(outputs: Path, record: RunRecord) -> None:
    (outputs / record.id).mkdir(parents=True)
    (outputs / record.id / "record.json").write_text(to_json(record), encoding="utf-8")


def in_wandb(server: WandbServer, record: RunRecord, *, project: str = "p") -> None:
    config: dict[str, object] = {"seed": {"value": record.seed}, "environment": {"value": {"packages": {"torch": "2"}}}}
    if record.content_hash:
        config["content_hash"] = {"value": record.content_hash}
    sent = {"project": project, "displayName": record.name, "config": json.dumps(config), "groupName": "recall"}
    summary = {**summary_of(record), "status": record.status}
    server.runs[record.wandb.id or record.id] = ServedRun([sent], summary=summary, exit_code=0)


@pytest.mark.process
def test_a_run_that_is_on_disk_and_in_wandb_counts_once_by_its_record(
    tmp_path: Path, server: WandbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, (attention, mamba) in enumerate(((2.0, 1.8), (2.05, 1.84), (1.95, 1.76))):
        on_disk(tmp_path / "runs", record_of("attention", seed, attention))
        in_wandb(server, record_of("mamba", seed, mamba, wandb_id=f"agents-{seed}"))
    on_disk(tmp_path / "runs", record_of("mamba", 0, 1.81, wandb_id="agents-0"))
    in_wandb(server, record_of("attention", 1, 99.0))
    addresses = ("wandb:me/p/groups/recall", str(tmp_path), "wandb:me/p/agents-1")

    assert main(["compare", *addresses, "--against", "attention", "--json"]) == 0

    message = json.loads(capsys.readouterr().out)
    (verdict,) = message["verdicts"]
    assert (verdict["arm"], verdict["seeds"]) == ("mamba", [0, 1, 2])
    assert verdict["difference"] == pytest.approx((1.81 + 1.84 + 1.76) / 3 - 2.0)
    assert (
        "wandb:me/p/groups/recall: 2 of these runs are among the others already, and counted once" in message["remarks"]
    )
    assert "wandb:me/p/agents-1: 1 of these runs is among the others already, and counted once" in message["remarks"]


@pytest.mark.process
def test_one_content_that_two_people_trained_counts_once(
    tmp_path: Path, server: WandbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(3):
        on_disk(tmp_path / "runs", record_of("attention", seed, 2.0 + seed / 100, wandb_id=f"a{seed}"))
        for person, loss in (("mine", 1.8), ("hers", 1.8)):
            name = f"{person}-{seed}"
            in_wandb(server, record_of("mamba", seed, loss + seed / 90, wandb_id=name, content=f"c{seed}"))

    assert main(["compare", "wandb:me/p/groups/recall", str(tmp_path), "--against", "attention", "--json"]) == 0

    message = json.loads(capsys.readouterr().out)
    (verdict,) = message["verdicts"]
    assert (verdict["arm"], verdict["seeds"]) == ("mamba", [0, 1, 2])
    assert (
        "wandb:me/p/groups/recall: 3 of these runs are among the others already, and counted once" in message["remarks"]
    )
