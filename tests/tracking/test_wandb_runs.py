"""Runs that W&B holds, through a client that stands in for W&B's: read as records, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headtohead.comparing.contest import Terms, contest_of
from headtohead.tracking import wandb
from headtohead.tracking.record import RunRecord, from_json
from headtohead.tracking.wandb_runs import WandbError, runs_at, summary_of

RECORDS = sorted((Path(__file__).parent / "records" / "version_1").glob("*.json"))


@dataclass
class FakeRun:
    """As wandb's Run shows itself."""

    id: str
    name: str
    config: dict[str, Any] = field(default_factory=dict)
    summary_metrics: dict[str, Any] = field(default_factory=dict)
    state: str = "finished"
    group: str | None = None
    job_type: str | None = None
    tags: tuple[str, ...] = ()
    url: str = "https://wandb.example/run"


class FakeApi:
    """As wandb's Api answers; `pages` tells what was asked."""

    def __init__(self, runs: list[FakeRun], trouble: Exception | None = None) -> None:
        self._runs, self._trouble = runs, trouble
        self.asked: list[tuple[str, int, bool]] = []

    def runs(self, path: str, *, per_page: int, lazy: bool) -> Iterator[FakeRun]:
        self.asked.append((path, per_page, lazy))
        if self._trouble:
            raise self._trouble
        yield from self._runs

    def run(self, path: str) -> FakeRun:
        return next(run for run in self._runs if path.endswith(f"/{run.id}"))


def ours(arm: str, seed: int, loss: float, **summary: Any) -> FakeRun:
    told = {
        "status": "finished",
        "test/loss": loss,
        "test_2x/loss": 2 * loss,
        "baseline/loss": 3.0,
        "costs/parameters": 100,
        "throughput/tokens_per_second": 5.0,
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
    return FakeRun(f"{arm}{seed}", f"{arm}-s{seed}", {"seed": seed + 100, "environment": {"packages": {}}}, told)


def read(runs: list[FakeRun], address: str = "me/project", metric: str | None = None) -> list[RunRecord]:
    return runs_at(address, lambda: FakeApi(runs), metric=metric)[0]


def test_a_run_of_ours_comes_back_as_its_record_was() -> None:
    (record,) = read([ours("gpt", 1, 2.0)])
    assert (record.place.study, record.place.arm, record.place.seed, record.seed) == ("s", "gpt", 1, 101)
    assert record.metrics == {"validation": {}, "test": {"loss": 2.0}, "test_2x": {"loss": 4.0}}
    assert (record.baselines, record.costs) == ({"loss": 3.0}, {"totals": {"parameters": 100.0}})
    assert (record.comparability.tokenizer, record.budget) == ("char", {"kind": "equal_tokens"})
    assert (record.progress.step, record.progress.tokens) == (20, 640)


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_what_a_record_tells_wandb_is_what_is_read_from_there(file: Path) -> None:
    record = from_json(file.read_text(encoding="utf-8"))
    config = {**record.config, "environment": asdict(record.environment)}
    held = FakeRun(record.id, record.name, config, {**summary_of(record), "status": record.status})
    (read_back,) = read([held])
    told = ("config", "metrics", "baselines", "place", "comparability", "budget", "status", "seed")
    assert [getattr(read_back, name) for name in told] == [getattr(record, name) for name in told]
    totals = {name: value for name, value in record.costs["totals"].items() if value is not None}
    assert read_back.costs["totals"] == totals


def test_runs_of_ours_are_compared_like_records() -> None:
    runs = [ours(arm, seed, loss + seed / 100) for arm, loss in (("gpt", 2.0), ("lstm", 2.5)) for seed in range(3)]
    runs[-1].summary_metrics["place/trial"] = 4
    (verdict,) = contest_of(read(runs), Terms("gpt")).verdicts
    assert (verdict.arm, verdict.seeds) == ("lstm", (0, 1))


def test_a_run_of_another_program_needs_a_metric_and_is_told_which_there_are() -> None:
    stranger = FakeRun("x", "resnet-seed3", {"lr": 0.1}, {"eval/acc": 0.5, "_step": 7, "note": "hi"})
    with pytest.raises(WandbError, match="--metric names one of its results, _step, eval/acc, note"):
        read([stranger])
    with pytest.raises(WandbError, match="have no eval/ac: --metric names"):
        read([stranger], metric="eval/ac")
    (record,) = read([stranger], metric="eval/acc")
    assert (record.metrics, record.seed, record.status) == ({"given": {"eval/acc": 0.5}}, 3, "finished")


@pytest.mark.parametrize("value", ["NaN", None, float("inf")])
def test_a_run_of_another_program_without_a_finite_metric_diverged(value: object) -> None:
    (record,) = read([FakeRun("x", "a", {"seed": 0}, {"loss": value})], metric="loss")
    assert record.status == "diverged"


@pytest.mark.parametrize(
    ("state", "status"), [("crashed", "interrupted"), ("failed", "failed"), ("running", "running")]
)
def test_a_run_that_did_not_finish_has_no_outcome(state: str, status: str) -> None:
    (record,) = read([FakeRun("x", "a", {}, {"loss": 1.0}, state=state)], metric="loss")
    assert (record.status, record.metrics) == (status, {})


def test_a_project_is_asked_page_by_page_with_all_that_is_needed() -> None:
    api = FakeApi([ours("gpt", 0, 1.0)])
    runs_at("me/project", lambda: api, metric=None)
    assert api.asked == [("me/project", 50, False)]


def test_one_run_is_read_by_its_id() -> None:
    assert [r.id for r in read([ours("gpt", 0, 1.0), ours("gpt", 1, 1.0)], "me/project/gpt1")] == ["gpt1"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("Could not find project me/project"), "W&B has no me/project: check entity, project and run id"),
        (RuntimeError("HTTP 403: permission denied"), "the key in use may not see me/project"),
        (RuntimeError("401 Unauthorized"), "W&B does not take the key in use"),
        (TimeoutError("timed out"), "W&B's server does not answer"),
        (RuntimeError("odd\nthing"), "cannot be read: odd thing"),
    ],
)
def test_whatever_the_client_raises_is_one_sentence(error: Exception, told: str) -> None:
    with pytest.raises(WandbError, match=told) as raised:
        runs_at("me/project", lambda: FakeApi([], error), metric=None)
    assert "\n" not in str(raised.value)


def test_without_a_key_or_a_network_nothing_of_wandb_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(why: Callable[[], Any]) -> str:
        with pytest.raises(WandbError) as raised:
            runs_at("me/project", why, metric=None)
        return str(raised.value)

    monkeypatch.setattr(wandb, "logged_in", lambda: False)
    assert "`wandb login`, or set WANDB_API_KEY" in asked(wandb.reading_api)
    monkeypatch.setattr(wandb, "logged_in", lambda: True)
    monkeypatch.setattr(wandb, "unreachable", lambda *_, **__: "no route to host")
    assert "cannot be reached (no route to host)" in asked(wandb.reading_api)


@pytest.mark.parametrize("address", ["", "me", "a/b/c/d"])
def test_an_address_without_a_project_is_refused(address: str) -> None:
    with pytest.raises(WandbError, match="write wandb:ENTITY/PROJECT"):
        read([], address)


def test_an_empty_project_is_refused() -> None:
    with pytest.raises(WandbError, match="holds no runs"):
        read([])
