"""Functions refuse what their commands refuse, before anything is composed, opened or trained."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headtohead as h2h
from headtohead.api.comparing import ReportedResults
from headtohead.api.estimated_study import PlannedStudy
from headtohead.api.many_runs import ManyRuns, outcome
from headtohead.api.probing import first_rows
from headtohead.api.result import upgraded
from headtohead.api.run_lists import FoundRuns
from headtohead.api.training import TrainedRun
from headtohead.errors import UsageError
from headtohead.execution.launchers.launcher import EndedCommand
from headtohead.execution.multirun import Multirun, MultirunJob
from headtohead.records.metrics_file import MetricsFile
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_summary import RunSummary
from headtohead.studies.planning.study_on_devices import ArmOnDevices


def test_a_plan_of_a_run_needs_devices_and_no_configuration() -> None:
    with pytest.raises(UsageError, match=r"holds no config\.yaml"):
        h2h.plan(on="h100", from_run="nowhere")
    with pytest.raises(
        UsageError, match=r"^a plan needs devices: on='h100x8', on='cpu'; `h2h plan --devices` lists them$"
    ):
        h2h.plan(["data=copy"])


def logged_run(folder: Path, *names: str) -> TrainedRun:
    folder.mkdir()
    (folder / "record.json").write_text("{}")
    MetricsFile(folder / "metrics.csv").append(Progress(step=1), dict.fromkeys(names, 0.5))
    return upgraded(TrainedRun, RunRecord(id=folder.name, name=folder.name, path=folder))


class Compared(ReportedResults):
    """Runs in a comparison, without the comparison."""

    def __init__(self, *records: RunRecord) -> None:
        self.records = records

    @property
    def title(self) -> str:
        return "runs"

    def as_rows(self) -> list[dict[str, object]]:
        return []

    @property
    def results(self) -> Any:
        return SimpleNamespace(records=self.records)


def many(*records: TrainedRun | None) -> ManyRuns:
    jobs = [MultirunJob("arm", seed, (), {"name": f"run {seed}"}, f"run-{seed}") for seed in range(len(records))]
    return ManyRuns(Multirun(tuple(jobs), {}), dict(zip(jobs, records, strict=True)))


def test_a_run_that_diverged_before_its_first_validation_hides_no_other_curve(tmp_path: Path) -> None:
    diverged = logged_run(tmp_path / "diverged", "train/loss")
    whole = logged_run(tmp_path / "whole", "train/loss", "validation/loss")
    assert list(many(diverged, None, whole).curve()["name"]) == ["run 2"]
    assert list(Compared(diverged, whole).curve()["arm"]) == ["whole"]
    assert list(many(diverged, whole).curve("train/loss")["seed"]) == [0, 1]
    for runs in (many(diverged), Compared(diverged)):
        with pytest.raises(
            UsageError, match=r"^validation/loss was logged by none of the runs: choose among train/loss$"
        ):
            runs.curve()
    with pytest.raises(UsageError, match="nothing was logged yet"):
        many(None).curve()


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: h2h.search("bm25", ["a"], "a", rerank=3, pooling="cls"), "pooling= and rerank= would have no effect"),
        (lambda: h2h.search(["bm25"], "nowhere", "a", batch_size=3), "batch_size= would have no effect: bm25 has no"),
        (lambda: h2h.measure_retrieval("bm25", "nowhere", "x", relevant="x", pooling="cls"), "pooling= would have no"),
        (lambda: h2h.measure_retrieval("bm25", "nowhere", "x", relevant="x", k=[]), "k= is empty"),
        (lambda: h2h.search([], ["a"], "a"), "there are no retrievers"),
        (lambda: h2h.search("bm25", ["a"], []), "there are no queries: give one or more, queries='some words'"),
        (lambda: h2h.search("bm25", ["a"], " "), "queries=' ' is empty"),
        (lambda: h2h.search("bm25", ["a"], "a", unit="line"), "unit= would have no effect: it is of files"),
        (lambda: h2h.search("bm25", ["a"], "a", text_column=["b"]), "text_column= would have no effect"),
        (lambda: h2h.search("bm25", ["a"], "a", id_column="b"), "id_column= would have no effect"),
        (lambda: h2h.match({}), "there is nothing to match"),
        (lambda: h2h.lm_eval("nowhere", []), "tasks= names no task"),
        (lambda: h2h.new_study("mine", "nowhere.csv"), "mine.yaml exists: choose another name, or give replace_file="),
    ],
)  # fmt: skip
def test_what_would_not_be_read_is_refused(
    call: Callable[[], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("")
    with pytest.raises(UsageError, match=f"^{re.escape(reason)}"):
        call()


def planned(runs: int, hours: float | None, price: float | None = None) -> ArmOnDevices:
    """Twice as many runs, each of half the length."""
    best = None if hours is None else SimpleNamespace(hours=hours, price=price, overrides=())
    hours_of_all = math.inf if hours is None else 2 * hours
    plan: Any = SimpleNamespace(best=best, devices=2, device_hours=hours_of_all)
    return ArmOnDevices(plan, 2 * runs, runs)


def test_a_planned_study_says_what_all_runs_take_and_which_arms_are_left_out() -> None:
    arms = {"wide": planned(3, 1.5, 10.0), "deep": planned(2, 1.0)}
    shown = PlannedStudy("mine", "h100x2", arms, ["linear"])
    assert shown.title == "mine on h100x2: every arm with steps fits"
    assert shown.sentences == ["not planned, since fitted to all rows at once without steps: linear"]
    wide, deep = shown.as_rows()
    assert (wide["hours_a_run"], wide["device_hours"], wide["price"]) == (1.5, 9.0, 30.0)
    assert (deep["device_hours"], deep["price"]) == (4.0, None)
    huge = PlannedStudy("mine", "h100x2", {"huge": planned(2, None)})
    assert huge.title == "mine on h100x2: no layout fits huge" and huge.as_rows()[0]["device_hours"] is None
    assert not huge.sentences


def test_columns_of_runs_are_a_list_and_may_be_the_result_in_short() -> None:
    listed = FoundRuns([RunSummary("a", "a", "mine", stage="validation", metric="loss", value=0.5)])
    (row,) = listed.to_frame(["name", "result"]).to_dict("records")
    assert row == {"name": "mine", "result": "loss 0.5 (validation)"}
    with pytest.raises(UsageError, match=r"to_frame\(columns=...\) takes a list of texts.*write \['seed'\]"):
        listed.to_frame("seed")
    with pytest.raises(UsageError, match=r"^columns=\['nmae'\] is not a field of these runs: did you mean name"):
        listed.to_frame(["nmae"])


def test_words_that_no_study_has_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^no study has the words '': h2h.choices\(\"study\"\) shows all$"):
        h2h.choices("study", find="")


def test_a_worker_that_ends_with_a_code_loses_no_record_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = logged_run(tmp_path / "whole", "train/loss")
    whole.status = "finished"
    monkeypatch.setattr("headtohead.api.many_runs.record_of", lambda folder: whole if folder.name == "run-0" else None)
    monkeypatch.setattr(Multirun, "run_folder", lambda _, job: tmp_path / job.id)
    command: Any = SimpleNamespace(log=tmp_path / "log")
    command.log.write_text("killed\n")
    made = outcome(many(whole, None).multirun, [EndedCommand(command, 137), EndedCommand(command, 0)])
    assert made.title == "1 of 2 runs finished"
    assert made.sentences == [f"a worker ended with code 137 ({command.log}): killed", "run 1 never started"]


def test_the_first_rows_are_shown_where_none_are_requested() -> None:
    for rows, shown in ((2, [0, 1]), (9, [0, 1, 2])):
        run: Any = SimpleNamespace(data=SimpleNamespace(split=lambda _, rows=rows: range(rows)))
        assert first_rows(run, "test") == shown
