"""Runs that W&B holds, read by its own client from the tests' server: as records, or refused in one sentence."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from headtohead.comparison.comparison import comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.records.record import RunRecord, from_json
from headtohead.wandb_client import runs_as_records, wandb_tracker
from headtohead.wandb_client.addresses import WandbError
from headtohead.wandb_client.runs_as_records import RunKeys, flattened, runs_at, summary_of
from wandb_server import ServedRun, WandbServer
from wandb_server.serving import Behaviour

RECORDS = sorted((Path(__file__).parents[1] / "records" / "version_1").glob("*.json"))


def hold(
    server: WandbServer,
    name: str,
    config: dict[str, Any],
    summary: dict[str, Any],
    *,
    id: str | None = None,
    exit_code: int | None = 0,
    group: str | None = None,
    sweep: str | None = None,
) -> None:
    """Store a run as if a client had sent it."""
    sent = {key: {"value": value} for key, value in config.items()}
    first = {"project": "project", "displayName": name, "config": json.dumps(sent), "groupName": group, "sweep": sweep}
    server.runs[id or name] = ServedRun(upserts=[first], summary=summary, exit_code=exit_code)


def ours(server: WandbServer, arm: str, seed: int, loss: float, **summary: Any) -> None:
    message = {
        "status": "finished",
        "test/loss": loss,
        "test_2x/loss": 2 * loss,
        "baseline/loss": 3.0,
        "costs/parameters": 100,
        "throughput/tokens_per_second": 5.0,
        "min/validation/loss": 0.5,
        "comparability/tokenizer": "char",
        "comparability/loss_normalisation": "mean",
        "place/study": "s",
        "place/arm": arm,
        "place/seed": seed,
        "place/share": 1.0,
        "budget/kind": "equal_tokens",
        "trainer/global_step": 20,
        "progress/tokens": 640,
        **summary,
    }
    config = {"seed": seed + 100, "arm": arm, "place": {"arm": arm}, "environment": {"packages": {"torch": "2"}}}
    hold(server, f"{arm}-s{seed}", config, message, group="s")


def read(address: str = "me/project", **names: str) -> list[RunRecord]:
    return runs_at(address, wandb_tracker.reading_api, RunKeys(**names))[0]


def refused(address: str = "me/project", **names: str) -> str:
    with pytest.raises(WandbError) as raised:
        read(address, **names)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.process
def test_a_run_of_ours_comes_back_as_its_record_was(server: WandbServer) -> None:
    ours(server, "gpt", 1, 2.0)
    (record,) = read()
    assert (record.place.study, record.place.arm, record.place.seed, record.seed) == ("s", "gpt", 1, 101)
    assert record.config == {"seed": 101}
    assert record.metrics == {"validation": {}, "test": {"loss": 2.0}, "test_2x": {"loss": 4.0}}
    assert (record.baselines, record.costs) == ({"loss": 3.0}, {"totals": {"parameters": 100.0}})
    assert (record.comparability.tokenizer, record.budget) == ("char", {"kind": "equal_tokens"})
    assert (record.progress.step, record.progress.tokens) == (20, 640)


@pytest.mark.process
def test_what_records_tell_wandb_is_what_is_read_from_there(server: WandbServer) -> None:
    records = {record.id: record for file in RECORDS for record in [from_json(file.read_text(encoding="utf-8"))]}
    for record in records.values():
        config = {**record.config, "environment": asdict(record.environment)}
        hold(server, record.name, config, {**summary_of(record), "status": record.status}, id=record.id)
    message = ("config", "metrics", "baselines", "place", "comparability", "budget", "status", "seed")
    for read_back in read():
        record = records.pop(read_back.id)
        assert [getattr(read_back, name) for name in message] == [getattr(record, name) for name in message]
        totals = {name: value for name, value in record.costs["totals"].items() if value is not None}
        assert read_back.costs["totals"] == totals
    assert not records


@pytest.mark.process
def test_runs_of_ours_are_compared_like_records(server: WandbServer) -> None:
    for arm, loss in (("gpt", 2.0), ("lstm", 2.5)):
        for seed in range(3):
            ours(server, arm, seed, loss + seed / 100, **({"place/trial": 4} if (arm, seed) == ("lstm", 2) else {}))
    (verdict,) = comparison_of(read(), ComparisonSpec("gpt")).verdicts
    assert (verdict.arm, verdict.seeds) == ("lstm", (0, 1))


@pytest.mark.process
def test_more_runs_than_a_page_holds_all_arrive_in_order(server: WandbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_as_records, "PAGE", 2)
    for seed in range(5):
        ours(server, "gpt", seed, 1.0)
    assert [record.id for record in read()] == [f"gpt-s{seed}" for seed in range(5)]
    assert [record.id for record in read("me/project/gpt-s3")] == ["gpt-s3"]


@pytest.mark.process
def test_a_sweep_or_a_study_is_found_by_the_address_of_its_page(server: WandbServer) -> None:
    ours(server, "gpt", 0, 1.0)
    hold(server, "a", {"lr": 0.1}, {"loss": 1.0}, sweep="sw1")
    hold(server, "b", {"lr": 0.2}, {"loss": 2.0}, sweep="sw1")
    assert [record.name for record in read("me/project/sweeps/sw1", metric="loss")] == ["a", "b"]
    assert [record.name for record in read("https://wandb.example/me/project/groups/s/workspace?nw=x")] == ["gpt-s0"]
    assert [record.name for record in read("me/project/studies/s")] == ["gpt-s0"]
    assert refused("me/project/sweeps/nope").endswith("holds no runs: the project has sweeps/sw1, groups/s")


@pytest.mark.process
def test_a_run_of_another_program_needs_a_metric_and_is_told_which_there_are(server: WandbServer) -> None:
    hold(server, "resnet-seed3", {"lr": 0.1}, {"eval/acc": 0.5, "_step": 7, "note": "hi", "loss": {"min": 0.2}})
    assert "made by another program: --metric names one of its results, _step, eval/acc, loss.min, note" in refused()
    assert "have no eval/ac: --metric names one of its results, did you mean eval/acc?" in refused(metric="eval/ac")
    (record,) = read(metric="eval/acc")
    assert (record.metrics, record.seed, record.status) == ({"given": {"eval/acc": 0.5}}, 3, "finished")
    (record,) = read(metric="loss.min")
    assert record.metrics == {"given": {"loss.min": 0.2}}


def test_tables_and_pictures_of_a_summary_are_no_results() -> None:
    table = {"_type": "table-file", "ncols": 3, "nrows": 8, "path": "media/table/samples.json"}
    summary = {"loss": 1.0, "samples": table, "validation": {"samples": table, "accuracy": 0.5}}
    assert flattened(summary) == {"loss": 1.0, "validation.accuracy": 0.5}


@pytest.mark.process
def test_runs_of_another_program_are_judged_by_the_arm_and_the_seed_that_are_named(server: WandbServer) -> None:
    for arm, loss, spread in (("cnn", 2.0, 0.01), ("vit", 1.0, 0.02)):
        for seed in range(3):
            config = {"model": {"name": arm}, "training": {"rng": seed}}
            hold(server, f"{arm}{seed}", config, {"loss": loss + spread * seed}, group=f"g-{arm}")
    records = read(metric="loss", arm="model.name", seed="training.rng")
    (verdict,) = comparison_of(records, ComparisonSpec("cnn", direction="min")).verdicts
    assert (verdict.arm, verdict.seeds, verdict.kind) == ("vit", (0, 1, 2), "better")
    assert {record.place.arm for record in read(metric="loss", arm="group")} == {"g-cnn", "g-vit"}
    wrong = refused(metric="loss", arm="model.nam")
    assert "cnn0 of wandb:me/project has no model.nam, which --arm names: did you mean model.name?" in wrong
    assert "model.name of cnn0 is cnn; --seed must name a whole number" in refused(metric="loss", seed="model.name")


@pytest.mark.process
def test_runs_of_another_program_without_a_finite_metric_or_an_end_have_no_outcome(server: WandbServer) -> None:
    hold(server, "nan", {"seed": 0}, {"loss": "NaN"})
    hold(server, "none", {"seed": 0}, {"loss": None})
    for name, code in (("crashed", 255), ("failed", 1), ("running", None)):
        hold(server, name, {}, {"loss": 1.0}, exit_code=code)
    result = {record.name: (record.status, record.metrics) for record in read(metric="loss")}
    assert result == {
        "nan": ("diverged", {}),
        "none": ("diverged", {}),
        "crashed": ("interrupted", {}),
        "failed": ("failed", {}),
        "running": ("running", {}),
    }


@pytest.mark.process
def test_what_wandb_does_not_have_is_said_in_a_sentence(server: WandbServer) -> None:
    ours(server, "gpt", 0, 1.0)
    for address, without_name in (("me/other", "me/other"), ("you/project", "you/project"), ("me/project/x", "x")):
        assert f"{without_name}: check entity, project and run id" in refused(address)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [("refuses", "W&B rejects this key"), ("hangs", "server does not answer"), ("fails", "not answer")],
)
@pytest.mark.process
def test_a_server_in_trouble_is_told_soon_and_for_what_it_is(
    server: WandbServer, monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour, message: str
) -> None:
    monkeypatch.setattr(wandb_tracker, "_READING_TIMEOUT", 1)
    server.behaviour = behaviour
    assert message in refused()


def test_without_a_key_or_a_network_nothing_of_wandb_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb_tracker, "logged_in", lambda: False)
    assert "`wandb login`, or set WANDB_API_KEY" in refused()
    monkeypatch.setattr(wandb_tracker, "logged_in", lambda: True)
    monkeypatch.setattr(wandb_tracker, "unreachable", lambda *_, **__: "no route to host")
    assert "cannot be reached (no route to host)" in refused()


@pytest.mark.parametrize("address", ["", "me", "a/b/c/d", "a/b/sweeps", "a/b/c/d/e"])
def test_an_address_without_a_project_or_of_no_known_form_is_refused_with_the_forms(address: str) -> None:
    assert "write wandb:ENTITY/PROJECT, followed by nothing, /RUN, /sweeps/ID" in refused(address)
